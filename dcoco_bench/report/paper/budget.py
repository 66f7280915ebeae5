"""Table 4: the same methods trained under two budgets. Two runs whose checkpoints differ stand for the two."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dcoco_bench.report.means import mean_of
from dcoco_bench.report.paper.layout import DRAFTERS, Variant
from dcoco_bench.report.paper.missing import streams
from dcoco_bench.report.paper.modes import Address, Mode, extra_methods, sampling_text
from dcoco_bench.report.paper.slots import cells_of
from dcoco_bench.report.paper.where import WHERE, where
from dcoco_bench.report.points import Point
from dcoco_bench.report.results import tau
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.paired import paired_ratio

CAPTION = (
    "Accepted length τ of the same methods with the checkpoints of two runs, unweighted mean over the suites that both "
    "runs have. Change: mean of the suites' ratios less 1, paired over prompts. TPS is not compared between runs. In "
    "brackets: 95 % BCa bootstrap interval over prompts; several seeds: mean ± standard deviation."
)
HOW = (
    "Table 4: needs two runs whose checkpoints differ, the second trained longer; name both: "
    "dcoco-bench report RUN LONGER, after"
)
COMMAND = "dcoco-bench run --method METHOD --checkpoint METHOD=FOLDER --run-name LONGER"


def budget_table(mode: Mode) -> Table | None:
    """None unless two runs decoded the same prompts with other weights of one method."""
    pairs = {at: pair for at in mode.measured if (pair := _pair(mode, at)) is not None}
    if not pairs:
        return None
    runs, _ = Counter((a.run, b.run) for a, b in pairs.values()).most_common(1)[0]
    pairs = {at: pair for at, pair in pairs.items() if (pair[0].run, pair[1].run) == runs}
    specs = [v.spec for v in DRAFTERS]
    variants = [*DRAFTERS, *(Variant(s, s) for s in extra_methods(mode, specs))]
    title = f"Table 4: two training budgets, accepted length τ. {mode.title}, {streams(mode.main_level)}"
    columns = (
        *WHERE, Column("sampling", "T"), Column("method", "method"), Column("suites", "suites"),
        Column("before", runs[0], 3, interval=True), Column("after", runs[1], 3, interval=True),
        Column("change", "change %", 1, 100, interval=True, sign=True),
    )  # fmt: skip
    table = Table("table4", title, CAPTION, columns)
    for sampling in mode.samplings:
        for v in variants:
            mine = [p for at, p in pairs.items() if at[:2] == (sampling, mode.main_level) and at.method == v.spec]
            row = {
                "sampling": Entry(sampling_text(sampling)),
                "method": Entry(v.title),
                "suites": Entry(str(len(mine))),
            }
            if mine:
                row |= _numbers(mine)
            table.add(**where(mode), **row)
    return table


def _pair(mode: Mode, at: Address) -> tuple[Point, Point] | None:
    """The oldest and the newest measurement of a slot, where their weights differ."""
    whole = [p for p in mode.measured[at] if p.whole]
    if len(whole) < 2 or at.concurrency != mode.main_level:
        return None
    first, last = whole[0], whole[-1]
    weights = [p.logs[0].record.provenance.get("checkpoint") for p in (first, last)]
    same = first.logs[0].record.suite.prompt_hash == last.logs[0].record.suite.prompt_hash
    return (first, last) if same and None not in weights and weights[0] != weights[1] else None


def _numbers(pairs: list[tuple[Point, Point]]) -> dict[str, Entry]:
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    ratios = mean_of([paired_ratio(b.shown, a.shown, "tau") for a, b in pairs])
    change = {k: v - 1 for k in ("value", "lo", "hi") if isinstance(v := getattr(ratios, k), float)}
    return {
        "before": replace(mean_of([tau(p) for p in before]), cells=cells_of(before)),
        "after": replace(mean_of([tau(p) for p in after]), cells=cells_of(after)),
        "change": replace(ratios, **change),  # type: ignore[arg-type]
    }
