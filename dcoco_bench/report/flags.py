"""What a reader must know about a point before believing its numbers, in a few words each."""

from __future__ import annotations

from dcoco_bench.report.points import Point
from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.throughput import drift

UNDRAFTED = 0.05  # a larger share of decode steps without drafts makes tau over drafting rounds flattering
HITS = ("prefix_cache_hits", "vllm:prefix_cache_hits_total", "prefix_cache_hits_total")


def flags(point: Point) -> list[str]:
    """Flags of a point, each once, over all its seeds."""
    found = [f for log in point.logs for f in _cell_flags(log)]
    if point.unfinished:
        found.append(f"{point.unfinished} of {point.unfinished + len(point.logs)} seeds not finished")
    if point.logs and point.drafts and point.baseline and _other_prompts(point):
        found.append("rendered prompts differ from the baseline's")
    return list(dict.fromkeys(found))


def _cell_flags(log: CellLog) -> list[str]:
    a, t = log.acceptance, log.throughput
    found = [log.unusable] if log.unusable else []
    if t.failed:
        found.append(f"{t.failed} failed requests left out")
    if t.untimed:
        found.append(f"{t.untimed} requests without times left out of latency")
    if a.unknown:
        found.append(f"rounds unknown for {a.unknown} of {a.unknown + a.requests} requests")
    if a.misfit:
        found.append(a.misfit)
    if a.trim_warning:
        found.append(a.trim_warning)
    if a.rounds and (a.undrafted_share or 0) > UNDRAFTED:
        found.append(f"{a.undrafted_share:.0%} of decode steps undrafted")
    trend = drift(log.table)
    if trend is not None:
        found.append(
            f"request rate drifts {'up' if trend > 0 else 'down'} over the cell (rank correlation {trend:.2f})"
        )
    hits = next((log.record.counters[name] for name in HITS if log.record.counters.get(name)), 0)
    if hits:
        found.append(f"prefix cache hits: {hits:g} tokens")
    if len(log.record.walls) > 1:
        found.append(f"resumed {len(log.record.walls) - 1}×")
    return found


def _other_prompts(point: Point) -> bool:
    """First turns only: later prompts hold the live answers and may differ."""

    def rendered(logs: list[CellLog]) -> dict[int, str]:
        return {r.index: r.prompt_sha for log in logs for r in log.requests if r.turn == 0}

    ours, theirs = rendered(point.logs), rendered(point.baseline)
    return any(theirs.get(index, sha) != sha for index, sha in ours.items())
