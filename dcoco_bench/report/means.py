"""Means over suites: unweighted means of per-suite values. A suite that is not whole stays out, and is named."""

from __future__ import annotations

from dcoco_bench.report.points import Point, Setting
from dcoco_bench.report.results import COLUMNS as RESULT_COLUMNS
from dcoco_bench.report.results import IDENTITY, identity, measured, speedup, tau
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.intervals import Draws, Estimate, estimate, mean_over_suites
from dcoco_bench.stats.paired import Result

CAPTION = (
    "Unweighted mean over suites of the per-suite values (for the speed-up: mean of ratios, not the ratio of means). "
    "Definitions as in the table above. Suites that failed, are truncated, unfinished, or whose drafter was inactive "
    "are not averaged in; a mean over fewer suites is not comparable with its neighbours, so the suites are counted."
)
COLUMNS = (
    *(c for c in RESULT_COLUMNS if c.key in IDENTITY),
    Column("concurrency", "streams"),
    Column("method", "method"),
    Column("speedup", "speed-up", 2, interval=True),
    Column("tau", "τ", 2, interval=True),
    Column("per_stream_tps", "TPS per stream", 1, interval=True),
    Column("suites", "suites"),
    Column("left_out", "left out"),
    Column("origin", "", shown=False),
)


def means_table(setting: Setting) -> Table | None:
    """None where the setting has a single suite."""
    if len({p.cell.suite for p in setting.points}) < 2:
        return None
    table = Table("means", f"Mean over suites: {setting.title}", CAPTION, COLUMNS)
    for level in sorted({p.cell.concurrency for p in setting.points}):
        for method in dict.fromkeys(p.cell.method for p in setting.points):
            points = [p for p in setting.points if (p.cell.concurrency, p.cell.method) == (level, method)]
            if points:
                table.add(**_row(points, "sample" if setting.sample else "suite"))
    return table


def _row(points: list[Point], origin: str) -> dict[str, Entry]:
    whole = [p for p in points if p.whole]
    named = {k: v for k, v in identity(points[0]).items() if k != "suite"}
    return named | {
        "speedup": mean_of([speedup(p) for p in whole]),
        "tau": mean_of([tau(p) for p in whole]),
        "per_stream_tps": mean_of([measured(p, "per_stream_tps") for p in whole]),
        "suites": Entry(f"{len(whole)} of {len(points)}"),
        "left_out": Entry(", ".join(p.cell.suite for p in points if not p.whole)),
        "origin": Entry(origin),
    }


def mean_of(results: list[Result]) -> Entry:
    """Unweighted mean over suites, with its interval."""
    if not results:
        return Entry(None, reason="no suite can be averaged")
    values = [r.estimate.value for r in results]
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return Entry(None, reason=next(r.estimate.reason for r in results if r.estimate.value is None))
    fixed = {r.estimate.reason for r in results if r.draws is None or len(set(r.draws.resampled.tolist())) == 1}
    if fixed:  # the baseline's own speed-up, vanilla's tau: constants
        return Entry(sum(known) / len(known), reason=min(fixed))
    draws: list[Draws] = [r.draws for r in results if r.draws is not None]
    mean: Estimate = estimate(mean_over_suites(draws))
    return Entry.of(mean)
