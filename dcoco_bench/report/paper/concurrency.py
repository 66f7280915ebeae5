"""The concurrency table: throughput at each number of streams, and the corrector's margin over the best baseline."""

from __future__ import annotations

from dataclasses import replace

from dcoco_bench.cells import Sampling
from dcoco_bench.report.paper.layout import DCOCO, DRAFTERS, NO_SPEC, TPS, Variant
from dcoco_bench.report.paper.missing import missing
from dcoco_bench.report.paper.modes import Address, Mode, extra_methods, sampling_text
from dcoco_bench.report.paper.reference import find
from dcoco_bench.report.paper.slots import Values, mark_best
from dcoco_bench.report.paper.suite_tables import ASIDES, measured_suites, suite_rows
from dcoco_bench.report.paper.where import WHERE, paper_where, where
from dcoco_bench.report.table import BLANK, Column, Entry, Table

LEVELS = (4, 8, 16, 32)  # the paper's
CAPTION = (
    "TPS per stream, unweighted mean over the suites of the row; in parentheses the mean speed-up over no-spec of the "
    "same run and streams. Margin: mean over suites of DCOCO's TPS against that of the baseline with the highest mean "
    "in the row, which is named. In brackets: 95 % BCa bootstrap interval over prompts, which leaves out the choice of "
    "the best baseline. Bold: the highest of its row."
)
MARGIN = Column("margin", "DCOCO's margin %", 1, 100, interval=True, sign=True, always=True)


def concurrency_table(mode: Mode, paper: bool) -> Table | None:
    """None where the log has a single number of streams."""
    if len(mode.levels) < 2:
        return None
    values = Values(mode)
    declared = (NO_SPEC, *DRAFTERS)
    variants = [*declared, *(Variant(s, s) for s in extra_methods(mode, [v.spec for v in declared]))]
    columns = [_column(v) for v in variants]
    head = (Column("sampling", "T"), Column("level", "streams"), Column("suites", "suites"))
    title = f"Concurrency table: throughput at each number of streams. {mode.title}"
    table = Table(
        "concurrency",
        title,
        CAPTION,
        (*WHERE, *head, *columns, MARGIN, Column("baseline", "best baseline")),
        notes=mode.notes,
    )
    for sampling in mode.samplings:
        for level in sorted({*mode.levels, *LEVELS}):
            table.add(**_row(values, variants, sampling, level))
            known = find(table="concurrency", temperature=sampling.temperature, concurrency=level)
            if paper and known:
                row = {**paper_where(known[0]), "level": Entry(f"paper: {level}"), "margin": known[0].entry}
                table.add(**row, sampling=Entry(sampling_text(sampling)), suites=Entry(str(known[0].suites)))
        wanted = [
            Address(sampling, level, suite, v.spec)
            for level in sorted({*mode.levels, *LEVELS})
            for suite in mode.suites
            for v in declared
        ]
        table.missing += missing(mode, wanted, (), baseline=True)
    return table


def _column(variant: Variant) -> Column:
    aside = None if variant == NO_SPEC else ASIDES["speedup"]
    return Column(variant.spec, variant.title, 1, interval=True, aside=aside, always=True)


def _row(values: Values, variants: list[Variant], sampling: Sampling, level: int) -> dict[str, Entry]:
    mode = values.mode
    at = Address(sampling, level, "", "")
    suites = measured_suites(values, suite_rows(mode), at, [v.spec for v in variants])
    row: dict[str, Entry] = {}
    for v in variants:
        slot = at._replace(method=v.spec)
        tps = values.mean(suites, slot, lambda a: values.metric(a, TPS))
        row[v.spec] = tps if v == NO_SPEC else replace(tps, aside=values.mean(suites, slot, values.speedup))
    mark_best(row, list(row))
    rivals = {k: e.value for k, e in row.items() if k != DCOCO.spec and isinstance(e.value, float)}
    if rivals and not row[DCOCO.spec].missing:
        best = max(rivals, key=lambda k: rivals[k])
        slot = at._replace(method=DCOCO.spec)
        row["margin"] = values.mean(suites, slot, lambda a: values.change(a, best, TPS))
        row["baseline"] = Entry(next(v.title for v in variants if v.spec == best))
    count = Entry(f"{len(suites)}" + (" (sample)" if mode.sample else "")) if suites else BLANK
    return {
        **where(mode), "streams": Entry(level), "sampling": Entry(sampling_text(sampling)),
        "level": Entry(level), "suites": count, **row,
    }  # fmt: skip
