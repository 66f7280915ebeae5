"""Tables with a row for each suite and their mean: from a declaration to the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from dcoco_bench.cells import Sampling
from dcoco_bench.report.paper.layout import STAND_INS, SUITES, TPS, SuiteTable, Variant
from dcoco_bench.report.paper.missing import missing, streams
from dcoco_bench.report.paper.modes import Address, Mode, extra_methods, sampling_text
from dcoco_bench.report.paper.reference import find
from dcoco_bench.report.paper.slots import Values, entry, mark_best
from dcoco_bench.report.paper.where import WHERE, paper_where, where
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.cells import BASELINE
from dcoco_bench.stats.paired import Metric

CAPTION = (
    "TPS per stream: Σ output tokens / Σ request latency, prefill included. τ: tokens delivered per verification "
    "round, the target's own included (`round+bonus/delivered`).{beside} Mean: unweighted over the suites that were "
    "measured, for a ratio the mean of the suites' ratios. In brackets: 95 % BCa bootstrap interval over prompts, "
    "paired where two cells are compared; several seeds: mean ± standard deviation. Bold: the highest of its row, "
    "which does not say that it differs from the next. Rows called paper hold the paper's own numbers."
)
BESIDE = {
    "": "",
    "speedup": " In parentheses: speed-up over no-spec of the same run.",
    "change": " In parentheses: change against {against} in percent.",
}
ASIDES = {
    "speedup": Column("speedup", "speed-up", 2, interval=True),
    "change": Column("change", "change %", 1, 100, interval=True, sign=True),
}
METRICS: dict[Metric, tuple[str, int]] = {TPS: ("TPS", 1), "tau": ("τ", 2)}


def suite_table(mode: Mode, layout: SuiteTable, paper: bool) -> Table:
    """The table of a mode. `paper`: with rows of the paper's own values."""
    values, variants = Values(mode), _variants(mode, layout)
    columns = [c for v in variants for c in _columns(v, layout)]
    beside = BESIDE[layout.beside].format(against=layout.against)
    title = f"{layout.number}: {layout.subject}. {mode.title}, {streams(mode.main_level)}"
    head = (*WHERE, Column("sampling", "T"), Column("suite", "suite"))
    table = Table(layout.name, title, CAPTION.format(beside=beside), (*head, *columns), notes=mode.notes)
    wanted: list[Address] = []
    for sampling in _samplings(mode, layout):
        rows = suite_rows(mode)
        for suite in rows:
            slots = [Address(sampling, mode.main_level, suite, v.spec) for v in variants]
            row = {c.key: e for at in slots for c, e in _slot(values, at, layout)}
            mark_best(row, row.keys() if len(layout.metrics) == 1 else ())
            table.add(
                **where(mode), sampling=Entry(sampling_text(sampling)), suite=Entry(suite_title(mode, suite)), **row
            )
            wanted += slots
        table.add(**_mean_row(values, layout, variants, sampling, rows))
        if paper and (row := _paper_row(layout, variants, sampling)):
            table.add(sampling=Entry(sampling_text(sampling)), **row)
    if layout.companion:
        table.notes.append(f"What was not run is listed below {layout.companion}.")
    else:
        table.missing = missing(mode, wanted, variants, layout.beside == "speedup")
    return table


def applies(mode: Mode, layout: SuiteTable) -> bool:
    """The log has something to show in it."""
    if layout.thinking is not None and layout.thinking != mode.cell.thinking:
        return False
    present = {at.method for at in mode.measured if at.sampling in _samplings(mode, layout)}
    drafted = {v.spec for v in _variants(mode, layout)} - {BASELINE}
    return bool(present & (set(layout.needs) or drafted))


def suite_rows(mode: Mode) -> list[str]:
    """The paper's suites in its order, a stand-in in the place of the suite that it stands for, then the log's own."""
    present = {at.suite for at in mode.measured}
    rows = []
    for suite in SUITES:
        others = [s for s in STAND_INS.get(suite, ()) if s in present]
        rows += [*([suite] if suite in present or not others else []), *others]
    return [*rows, *(s for s in mode.suites if s not in rows)]


def suite_title(mode: Mode, suite: str) -> str:
    title = SUITES.get(suite, suite)
    title += next((f", for {SUITES[s]}" for s, others in STAND_INS.items() if suite in others), "")
    return title + (" (sample)" if mode.sample else "")


def measured_suites(values: Values, rows: Sequence[str], at: Address, specs: Sequence[str]) -> list[str]:
    """Suites that any of the methods has whole: what a mean is taken over."""

    def whole(suite: str, spec: str) -> bool:
        point = values.point(at._replace(suite=suite, method=spec))
        return point is not None and point.whole

    return [suite for suite in rows if any(whole(suite, spec) for spec in specs)]


def _samplings(mode: Mode, layout: SuiteTable) -> list[Sampling]:
    return [s for s in mode.samplings if s.greedy or not layout.greedy_only]


def _variants(mode: Mode, layout: SuiteTable) -> list[Variant]:
    extra = extra_methods(mode, [v.spec for v in layout.columns]) if layout.open_columns else []
    return [*layout.columns, *(Variant(spec, spec) for spec in extra)]


def _columns(variant: Variant, layout: SuiteTable) -> list[Column]:
    if len(layout.metrics) == 1:
        digits = METRICS[layout.metrics[0]][1]
        return [
            Column(variant.spec, variant.title, digits, interval=True, aside=ASIDES.get(layout.beside), always=True)
        ]
    return [
        Column(f"{variant.spec}:{metric}", *METRICS[metric], interval=True, group=variant.title, always=True)
        for metric in layout.metrics
    ]


def _slot(values: Values, at: Address, layout: SuiteTable) -> Iterator[tuple[Column, Entry]]:
    point = values.point(at)
    for column, metric in zip(_columns(Variant(at.method, ""), layout), layout.metrics, strict=True):
        found = entry(values.metric(at, metric), point)
        if layout.beside and not found.missing and at.method not in (BASELINE, layout.against):
            beside = values.speedup(at) if layout.beside == "speedup" else values.change(at, layout.against, metric)
            found = replace(found, aside=Entry.of(beside.estimate))
        yield column, found


def _mean_row(
    values: Values, layout: SuiteTable, variants: Sequence[Variant], sampling: Sampling, rows: Sequence[str]
) -> dict[str, Entry]:
    mode = values.mode
    at = Address(sampling, mode.main_level, "", "")
    suites = measured_suites(values, rows, at, [v.spec for v in variants])
    row: dict[str, Entry] = {}
    for v in variants:
        slot = at._replace(method=v.spec)
        for column, metric in zip(_columns(v, layout), layout.metrics, strict=True):
            mean = values.mean(suites, slot, partial(values.metric, metric=metric))
            if layout.beside == "speedup" and v.spec != BASELINE:
                mean = replace(mean, aside=values.mean(suites, slot, values.speedup))
            elif layout.beside == "change" and v.spec != layout.against:
                change = partial(values.change, against=layout.against, metric=metric)
                mean = replace(mean, aside=values.mean(suites, slot, change))
            row[column.key] = mean
    mark_best(row, row.keys() if len(layout.metrics) == 1 else ())
    named = f"mean of {len(suites)}" + (" (sample)" if mode.sample else "")
    return {**where(mode), "sampling": Entry(sampling_text(sampling)), "suite": Entry(named), **row}


def _paper_row(layout: SuiteTable, variants: Sequence[Variant], sampling: Sampling) -> dict[str, Entry]:
    """The paper's values at this temperature in the places of the table's; empty where it has none."""
    row: dict[str, Entry] = {}
    known = find(table=layout.name, temperature=sampling.temperature, suite="mean")
    for v in variants:
        for column, metric in zip(_columns(v, layout), layout.metrics, strict=True):
            mine = [p for p in known if p.method == v.spec]
            bare = next((p for p in mine if p.metric == metric), None)
            change = next((p for p in mine if p.metric.endswith("_change") and p.against == layout.against), None)
            if bare:
                row[column.key] = bare.entry
            elif change and layout.beside == "change":
                row[column.key] = Entry(None, aside=change.entry, source=change.cited)
    return {**paper_where(known[0]), "suite": Entry(f"paper: mean of {known[0].suites}"), **row} if row else {}
