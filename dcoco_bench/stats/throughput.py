"""Throughput and latency (`measurement.md` section 2.2). Failed requests are excluded, counted and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dcoco_bench.log import RequestRecord
from dcoco_bench.stats.requests import Floats, RequestTable, request_table

PHASES = ("prefill", "draft", "head", "verify", "other")

DRIFT_P = 1e-3  # a rank correlation of rate with time this unlikely by chance is called drift (C26)


@dataclass(frozen=True)
class Spread:
    """Seconds over `count` requests."""

    mean: float
    p50: float
    p99: float
    count: int


@dataclass(frozen=True)
class Throughput:
    """Tokens per second and seconds. None = could not be computed, never 0."""

    requests: int
    failed: int
    untimed: int  # successful, but a time is missing: left out of the numbers that need it
    tokens: int
    wall: float | None  # seconds, all segments
    per_stream_tps: float | None  # sum of n / sum of E2E
    aggregate_tps: float | None  # sum of n / wall
    decode_tps: float | None  # sum of (n - 1) / sum of (E2E - TTFT)
    ttft: Spread | None
    tpot: Spread | None  # per token, prefill excluded; requests with n = 1 left out
    e2e: Spread | None


def throughput(requests: Sequence[RequestRecord] | RequestTable, walls: Sequence[float] = ()) -> Throughput:
    """Throughput of a cell. `walls`: seconds of each segment's measured part; without them aggregate TPS is missing."""
    table = requests if isinstance(requests, RequestTable) else request_table(requests)
    n, e2e, ttft = table.tokens, table.e2e, table.ttft
    timed = np.isfinite(e2e)
    first = timed & np.isfinite(ttft)
    several = first & (n > 1)
    decode = e2e - ttft
    wall = float(sum(walls)) if walls and all(np.isfinite(walls)) and sum(walls) > 0 else None
    tokens = int(n.sum())
    return Throughput(
        requests=len(table),
        failed=table.failed,
        untimed=int((~first).sum()),
        tokens=tokens,
        wall=wall,
        per_stream_tps=_rate(n[timed].sum(), e2e[timed].sum()),
        aggregate_tps=_rate(tokens, wall) if wall and len(table) else None,
        decode_tps=_rate((n[first] - 1).sum(), decode[first].sum()),
        ttft=_spread(ttft[first]),
        tpot=_spread(decode[several] / (n[several] - 1)),
        e2e=_spread(e2e[timed]),
    )


def round_time(tau: float | None, tps: float | None) -> float | None:
    """Seconds per round: tau / per-stream TPS. Compare only values made with the same tau and TPS definitions."""
    return tau / tps if tau is not None and tps else None


def phase_split(counters: Mapping[str, float], steps: float | None = None) -> dict[str, float]:
    """Seconds per engine step for each phase that the engine timed; empty where steps are unknown.

    One step serves every stream in flight once, so it is the round that each of them waits for. Prefill is not part
    of a round and is left out. `steps` is used where the counters have none.
    """
    count = counters.get("steps", steps)
    if not count:
        return {}
    return {p: counters[f"{p}_s"] / count for p in PHASES if p != "prefill" and f"{p}_s" in counters}


def drift(table: RequestTable) -> float | None:
    """Spearman correlation of request rate with finishing order when it is too strong for chance, else None."""
    timed = np.isfinite(table.e2e) & (table.e2e > 0)
    if timed.sum() < 8:
        return None
    order = np.lexsort((table.end[timed], table.segment[timed]))
    rate = (table.tokens[timed] / table.e2e[timed])[order]
    if np.ptp(rate) == 0:
        return None
    found = stats.spearmanr(np.arange(len(rate)), rate)
    return float(found.statistic) if found.pvalue < DRIFT_P else None


def _rate(amount: float, seconds: float | None) -> float | None:
    return float(amount) / float(seconds) if seconds and seconds > 0 else None


def _spread(seconds: Floats) -> Spread | None:
    if not len(seconds):
        return None
    p50, p99 = np.percentile(seconds, [50, 99])
    return Spread(float(seconds.mean()), float(p50), float(p99), len(seconds))
