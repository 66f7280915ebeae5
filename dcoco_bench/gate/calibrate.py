"""The noise floor: runs of the same thing against each other. A limit below it would fail by chance or never tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from dcoco_bench.gate.checks import Check, Outcome
from dcoco_bench.gate.gate import gate
from dcoco_bench.gate.limits import Limits
from dcoco_bench.log_read import Run


@dataclass(frozen=True)
class Noise:
    """Of one metric over all cells and pairs of runs: the widest interval and the largest shift, as shares."""

    metric: str
    half_width: float
    shift: float
    limit: float  # the drop that is allowed

    @property
    def floor(self) -> float:
        """The smallest drop that this noise lets a gate tell from none."""
        return self.half_width + self.shift

    @property
    def fits(self) -> bool:
        return self.floor <= self.limit


def calibrate(runs: Sequence[Run], limits: Limits) -> tuple[list[Noise], list[str]]:
    """Noise of speed and tau, and what the runs cannot be calibrated on (no common cell, too few prompts, failures)."""
    checks: list[Check] = []
    for first, second in combinations(runs, 2):
        checks += gate(first, second, limits).checks
    found, problems = [], []
    for metric, limit in (("tps", limits.max_tps_drop), ("tau", limits.max_tau_drop)):
        mine = [c for c in checks if c.metric == metric]
        usable = [c.estimate for c in mine if c.estimate.lo is not None]
        problems += [f"{c.where}, {metric}: {c.note}" for c in mine if c.estimate.lo is None and c.note]
        if usable:
            widths = [(e.hi - e.lo) / 2 for e in usable if e.hi is not None and e.lo is not None]
            shifts = [abs(e.value - 1) for e in usable if e.value is not None]
            found.append(Noise(metric, max(widths), max(shifts), limit))
    counted = [c for c in checks if c.metric in ("failures", "mismatch") and c.outcome is Outcome.REGRESSION]
    problems += [f"{c.where}: {c.metric}, {c.note}" for c in counted]
    return found, list(dict.fromkeys(problems))
