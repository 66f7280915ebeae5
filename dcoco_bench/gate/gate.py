"""Every cell of a run against the same cell of a baseline, and the mean of all suites at each load."""

from __future__ import annotations

from dataclasses import dataclass

from dcoco_bench.gate.baseline import mismatch
from dcoco_bench.gate.checks import POOL, Check, Outcome, at_least, share_of
from dcoco_bench.gate.limits import Limits
from dcoco_bench.log_read import Run
from dcoco_bench.report.points import Point, points_of
from dcoco_bench.stats.cells import without_seed
from dcoco_bench.stats.intervals import Draws, Estimate, estimate, mean_over_suites
from dcoco_bench.stats.losslessness import match
from dcoco_bench.stats.paired import Metric, paired_ratio

EXIT = {Outcome.PASS: 0, Outcome.REGRESSION: 1, Outcome.UNCLEAR: 4, Outcome.NO_BASELINE: 5}  # 2 and 3 are errors
WORST = (Outcome.REGRESSION, Outcome.NO_BASELINE, Outcome.UNCLEAR, Outcome.PASS)
METRICS: dict[str, Metric] = {"tps": "per_stream_tps", "tau": "tau"}


@dataclass(frozen=True)
class Verdict:
    baseline: str
    current: str
    limits: Limits
    checks: list[Check]

    @property
    def outcome(self) -> Outcome:
        """The worst of all. Where several suites are pooled, a cell alone cannot make the run unclear: the pool can."""
        pooled = {c.metric for c in self.checks if c.pooled}
        left_to_pool = [c for c in self.checks if c.outcome is Outcome.UNCLEAR and c.metric in pooled and not c.pooled]
        found = {c.outcome for c in self.checks if c not in left_to_pool} or {Outcome.NO_BASELINE}
        return next(o for o in WORST if o in found)


def gate(baseline: Run, current: Run, limits: Limits) -> Verdict:
    """Every point of `current`. A baseline that does not speak for a point is said so, per metric."""
    known = {without_seed(p.cell): p for p in points_of(baseline)}
    checks: list[Check] = []
    pools: dict[tuple[str, str], list[Draws]] = {}
    for point in points_of(current):
        reference = known.get(without_seed(point.cell))
        for name, metric in METRICS.items():
            if name == "tau" and not point.drafts:
                continue
            checks.append(_ratio(point, reference, name, metric, limits, pools))
        checks += _counts(point, reference, limits)
    for (where, name), draws in pools.items():
        if len(draws) > 1:
            pooled = estimate(mean_over_suites(draws))
            checks.append(at_least(f"{POOL}{len(draws)} suites, {where}", name, pooled, _floor(name, limits)))
    return Verdict(baseline.name, current.name, limits, checks)


def _ratio(
    point: Point,
    reference: Point | None,
    name: str,
    metric: Metric,
    limits: Limits,
    pools: dict[tuple[str, str], list[Draws]],
) -> Check:
    where, limit = _label(point), _floor(name, limits)
    if reason := mismatch(point, reference, timed=name == "tps"):
        return Check(where, name, Estimate(None, reason=reason), limit, Outcome.NO_BASELINE, reason)
    assert reference is not None
    draws, found = paired_ratio(point.shown, reference.shown, metric)
    if draws is not None:
        pools.setdefault((_label(point, suite=False), name), []).append(draws)
    return at_least(where, name, found, limit)


def _counts(point: Point, reference: Point | None, limits: Limits) -> list[Check]:
    """Failures need no baseline. Answers are compared where decoding is greedy and the prompts are the same."""
    where = _label(point)
    prompts = sum(log.record.suite.prompts for log in point.logs)
    failed = prompts - sum(log.answered for log in point.logs)
    checks = [share_of(where, "failures", failed, prompts, limits.max_failures)] if point.logs else []
    if point.cell.sampling.greedy and reference is not None and not mismatch(point, reference, timed=False):
        found = match(point.shown[0], reference.shown[0])
        checks.append(share_of(where, "mismatch", found.prompts - found.matched, found.prompts, limits.max_mismatch))
    return checks


def _floor(name: str, limits: Limits) -> float:
    return 1 - (limits.max_tps_drop if name == "tps" else limits.max_tau_drop)


def _label(point: Point, suite: bool = True) -> str:
    cell = point.cell
    named = f"{cell.method} c={cell.concurrency} T={cell.sampling.temperature:g}" + (" thinking" * cell.thinking)
    return f"{cell.suite} {named}" if suite else named
