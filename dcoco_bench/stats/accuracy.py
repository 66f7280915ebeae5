"""Accuracy of scored cells, and its paired difference to another point's: does speculation leave quality unchanged?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.intervals import Draws, Estimate, estimate, ratio_of_sums
from dcoco_bench.stats.losslessness import wilson
from dcoco_bench.stats.requests import Floats


@dataclass(frozen=True)
class Accuracy:
    """Over all seeds of a point. `rate`: right answers of those asked; an answer without a final answer is wrong."""

    rate: Estimate
    asked: int
    unanswered: int


def accuracy(logs: Sequence[CellLog]) -> Accuracy | None:
    """None where no cell was scored. One seed: a Wilson interval; several: over prompts, whose seeds stay together."""
    grades = [log.scores.grades for log in logs if log.scores]
    asked = sum(map(len, grades))
    if not asked:
        return None
    right = sum(g is True for seed in grades for g in seed.values())
    rate = wilson(right, asked)
    if len(grades) > 1 and 0 < right < asked:
        rate = estimate(_draws(logs, sorted(set().union(*grades))))
    return Accuracy(rate, asked, sum(g is None for seed in grades for g in seed.values()))


def difference(ours: Sequence[CellLog], theirs: Sequence[CellLog]) -> Estimate:
    """Accuracy minus the other's, over the prompts that both answered, paired by prompt."""
    scored = [[log.scores.grades for log in logs if log.scores] for logs in (ours, theirs)]
    if not all(scored):
        return Estimate(None, reason="not scored; run: dcoco-bench score")
    if ours[0].record.suite.prompt_hash != theirs[0].record.suite.prompt_hash:
        return Estimate(None, reason="other prompts")
    shared = sorted(set.intersection(*(set().union(*grades) for grades in scored)))
    found = _draws(ours, shared) - _draws(theirs, shared)
    if scored[0] == scored[1]:
        return Estimate(0.0, n=len(shared), reason="no interval: every verdict is the same")
    return estimate(found)


def _draws(logs: Sequence[CellLog], prompts: Sequence[int]) -> Draws:
    """Right answers over answers asked, by prompt."""
    grades = [log.scores.grades for log in logs if log.scores]

    def per_prompt(wanted: tuple[bool | None, ...]) -> Floats:
        return np.array([sum(p in seed and seed[p] in wanted for seed in grades) for p in prompts], dtype=np.float64)

    label = f"{logs[0].cell.suite} {logs[0].record.suite.prompt_hash}"
    return ratio_of_sums(per_prompt((True,)), per_prompt((True, False, None)), label)
