"""One check: a statistic with its interval against a limit, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from scipy import stats

from dcoco_bench.stats.intervals import LEVEL, Estimate

POOL = "mean of "  # how the place of a pooled check begins


class Outcome(StrEnum):
    PASS = "pass"
    REGRESSION = "regression"
    UNCLEAR = "cannot tell"
    NO_BASELINE = "no baseline"


@dataclass(frozen=True)
class Check:
    """`estimate` is a ratio to the baseline or a share; `limit` the worst that is allowed of it."""

    where: str  # the cell, or what is pooled
    metric: str  # tps, tau, match, failures
    estimate: Estimate
    limit: float
    outcome: Outcome
    note: str = ""

    @property
    def pooled(self) -> bool:
        """Over suites, rather than of one cell."""
        return self.where.startswith(POOL)


def at_least(where: str, metric: str, estimate: Estimate, limit: float) -> Check:
    """Passes when the whole interval is at or above `limit`, fails when all of it is below."""
    if estimate.value is None:
        return Check(where, metric, estimate, limit, Outcome.UNCLEAR, estimate.reason)
    if estimate.lo is None or estimate.hi is None:
        exact = estimate.value == 1.0 and metric in ("tau", "match")  # no noise to judge
        return Check(where, metric, estimate, limit, Outcome.PASS if exact else Outcome.UNCLEAR, estimate.reason)
    if estimate.lo >= limit:
        return Check(where, metric, estimate, limit, Outcome.PASS)
    if estimate.hi < limit:
        return Check(where, metric, estimate, limit, Outcome.REGRESSION)
    return Check(where, metric, estimate, limit, Outcome.UNCLEAR, settle(estimate, limit))


def share_of(where: str, metric: str, bad: int, of: int, allowed: float) -> Check:
    """A share of bad prompts, with its exact interval (Clopper-Pearson): more than is allowed must be more than chance.

    Where nothing is allowed, a single bad prompt is a regression: there is no noise in it.
    """
    if not of:
        return Check(where, metric, Estimate(None, reason="no prompt"), allowed, Outcome.UNCLEAR, "no prompt")
    interval = stats.binomtest(bad, of).proportion_ci(LEVEL, method="exact")
    estimate = Estimate(bad / of, float(interval.low), float(interval.high), of)
    if bad / of <= allowed:
        return Check(where, metric, estimate, allowed, Outcome.PASS)
    certain = allowed == 0 or estimate.lo is None or estimate.lo > allowed
    outcome = Outcome.REGRESSION if certain else Outcome.UNCLEAR
    return Check(where, metric, estimate, allowed, outcome, f"{bad} of {of} prompts")


def settle(estimate: Estimate, limit: float) -> str:
    """How many prompts would settle it, if the value stayed where it is: an interval shrinks with their square root."""
    assert estimate.value is not None
    assert estimate.lo is not None
    assert estimate.hi is not None
    distance = abs(estimate.value - limit)
    half = max(estimate.hi - estimate.value, estimate.value - estimate.lo)
    if distance < half / 32:  # a thousand times as many prompts
        return "the value lies on the limit: no number of prompts would tell; choose another limit"
    needed = math.ceil(estimate.n * (half / distance) ** 2)
    repeats = math.ceil(needed / max(estimate.n, 1))
    return f"about {needed - estimate.n} more prompts would tell ({needed} in all), or {repeats} seeds"
