"""Table 2: every backbone and thinking mode at a glance, mean speed-up over vanilla."""

from __future__ import annotations

from collections.abc import Sequence

from dcoco_bench.report.paper.layout import DRAFTERS, Variant
from dcoco_bench.report.paper.modes import Address, Mode, extra_methods, sampling_text
from dcoco_bench.report.paper.slots import Values, mark_best
from dcoco_bench.report.paper.suite_tables import measured_suites, suite_rows
from dcoco_bench.report.paper.where import WHERE, where
from dcoco_bench.report.table import Column, Entry, Table

CAPTION = (
    "Mean speed-up over no-spec: unweighted over the suites of the row, the mean of the suites' ratios of TPS per "
    "stream in the same run and at the same streams. In brackets: 95 % BCa bootstrap interval over prompts. Bold: the "
    "highest at its temperature."
)


def overview_table(modes: Sequence[Mode]) -> Table:
    """`modes` share their machine, engine and definitions; they differ in backbone, thinking mode and limits."""
    samplings = list(dict.fromkeys(s for mode in modes for s in mode.samplings))
    variants = [*DRAFTERS, *(Variant(s, s) for m in modes for s in extra_methods(m, [v.spec for v in DRAFTERS]))]
    variants = list(dict.fromkeys(variants))
    keys = {(v.spec, s): f"{v.spec}:T={sampling_text(s)}" for s in samplings for v in variants}
    columns = [
        Column(keys[v.spec, s], v.title, 2, interval=True, group=f"T={sampling_text(s)}", always=True)
        for s in samplings
        for v in variants
    ]
    first = modes[0]
    machine = f"{first.cell.engine} engine, {first.cell.dtype}"
    machine += ", SIMULATED acceptance" if first.simulated else ""
    machine += ", SAMPLE prompts, not the suites" if first.sample else ""
    head = (Column("mode", "backbone"), Column("suites", "suites"), Column("limit", "tokens ≤"))
    notes = list(dict.fromkeys(note for mode in modes for note in mode.notes))
    notes.append("What was not run is listed below Tables 1 and 8.")
    title = f"Table 2: all configurations, mean speed-up over no-spec. {machine}"
    table = Table("table2", title, CAPTION, (*WHERE, *head, *columns), notes=notes)
    for mode in modes:
        values, counts = Values(mode), list[str]()
        row: dict[str, Entry] = {}
        for sampling in mode.samplings:
            at = Address(sampling, mode.main_level, "", "")
            rows = suite_rows(mode)
            suites = measured_suites(values, rows, at, [v.spec for v in variants])
            counts.append(f"{len(suites)}")
            mine = {
                keys[v.spec, sampling]: values.mean(suites, at._replace(method=v.spec), values.speedup)
                for v in variants
            }
            mark_best(mine, mine.keys())
            row |= mine
        name = f"{mode.cell.backbone}, thinking {'on' if mode.cell.thinking else 'off'}"
        name += f", {mode.main_level} streams" if mode.main_level > 1 else ""
        counted = Entry(" and ".join(dict.fromkeys(counts)) + (" (sample)" if mode.sample else ""))
        table.add(**where(mode), mode=Entry(name), suites=counted, limit=Entry(mode.cell.max_tokens), **row)
    return table
