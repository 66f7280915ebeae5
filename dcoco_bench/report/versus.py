"""One drafter against another: paired ratios of accepted length, throughput and the cost of a cycle."""

from __future__ import annotations

from dcoco_bench.report.means import mean_of
from dcoco_bench.report.points import Point, Setting
from dcoco_bench.report.results import COLUMNS as RESULT_COLUMNS
from dcoco_bench.report.results import IDENTITY, PHASE_COLUMNS, identity
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.intervals import Estimate
from dcoco_bench.stats.paired import Metric, Result, paired_ratio
from dcoco_bench.stats.throughput import phase_split

REFERENCE = "dflash"  # the drafter that the correctors start from
MEAN = "mean of suites"
METRICS: dict[str, Metric] = {"tau": "tau", "tps": "per_stream_tps", "round": "round_time"}

CAPTION = (
    "Ratios to {reference} in the same run, suite, concurrency and settings, over the requests that succeeded on both "
    "sides: τ and TPS per stream (above 1 is better), the wall time of a round (τ / TPS per stream, prefill included), "
    "and the engine's time per step without prefill (below 1 is cheaper). Means are unweighted means of the suites' "
    "ratios. In brackets: 95 % BCa bootstrap interval over prompts, paired."
)
COLUMNS = (
    *(c for c in RESULT_COLUMNS if c.key in IDENTITY),
    Column("suite", "suite"),
    Column("concurrency", "streams"),
    Column("method", "method"),
    Column("against", "against", shown=False),
    Column("tau", "τ ratio", 3, interval=True),
    Column("tps", "TPS ratio", 3, interval=True),
    Column("round", "round ratio", 3, interval=True),
    Column("step", "step ratio", 3),
)


def versus_table(setting: Setting, reference: str = REFERENCE) -> Table | None:
    """None where the reference, or anything to hold against it, is not in the setting."""
    anchors = {(p.cell.suite, p.cell.concurrency): p for p in setting.points if p.cell.method == reference}
    others = [p for p in setting.points if p.drafts and p.cell.method != reference]
    if not anchors or not others:
        return None
    table = Table("versus", f"Against {reference}: {setting.title}", CAPTION.format(reference=reference), COLUMNS)
    several = len({p.cell.suite for p in others}) > 1
    for level in sorted({p.cell.concurrency for p in others}):
        for method in dict.fromkeys(p.cell.method for p in others):
            points = [p for p in others if (p.cell.concurrency, p.cell.method) == (level, method)]
            pairs = [(p, anchors[key]) for p in points if (key := (p.cell.suite, level)) in anchors]
            for ours, theirs in pairs:
                table.add(**identity(ours), against=Entry(reference), **_ratios(ours, theirs))
            whole = [(a, b) for a, b in pairs if a.whole and b.whole]
            if several and whole:
                means = {key: mean_ratio(setting, method, level, key, reference) for key in METRICS}
                named = identity(points[0]) | {"suite": Entry(f"{MEAN} ({len(whole)} of {len(points)})")}
                table.add(**named, against=Entry(reference), **means)
    return table


def mean_ratio(setting: Setting, method: str, level: int, key: str, reference: str = REFERENCE) -> Entry:
    """The mean of suites of one ratio (`tau`, `tps`, `round`); of a single suite, its own. Blank with the reason."""
    anchors = {p.cell.suite: p for p in setting.points if (p.cell.method, p.cell.concurrency) == (reference, level)}
    mine = [p for p in setting.points if (p.cell.method, p.cell.concurrency) == (method, level)]
    pairs = [(p, anchors[p.cell.suite]) for p in mine if p.cell.suite in anchors]
    return mean_of([_ratio(a, b, METRICS[key]) for a, b in pairs if a.whole and b.whole])


def _ratios(ours: Point, theirs: Point) -> dict[str, Entry]:
    found = {key: Entry.of(_ratio(ours, theirs, metric).estimate) for key, metric in METRICS.items()}
    return found | {"step": _step(ours, theirs)}


def _ratio(ours: Point, theirs: Point, metric: Metric) -> Result:
    for point in (ours, theirs):
        if not point.shown:
            return Result(None, Estimate(None, reason=f"{point.cell.method}: {point.blank}"))
    if metric != "tau" and ours.hardware != theirs.hardware:
        return Result(None, Estimate(None, reason="measured on other hardware"))
    return paired_ratio(ours.shown, theirs.shown, metric)


def _step(ours: Point, theirs: Point) -> Entry:
    """Engine seconds per step, all phases but prefill; seeds averaged."""
    sums = []
    for point in (ours, theirs):
        splits = [phase_split(log.record.counters) for log in point.shown]
        if not splits or any(split.get(phase) is None for split in splits for phase in PHASE_COLUMNS):
            return Entry(None, reason="the engine does not time its phases")
        sums.append(sum(split[phase] or 0.0 for split in splits for phase in PHASE_COLUMNS) / len(splits))
    return Entry(sums[0] / sums[1]) if sums[1] else Entry(None, reason="no step")
