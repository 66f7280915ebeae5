"""Sequential temperature scaling: confidences that mean what they say (arXiv 2607.05147; methods.md 4.4)."""

from __future__ import annotations

import torch
from torch import Tensor

BINS = 20
GRID = [round(0.1 * 1.08**i, 4) for i in range(60)]  # 0.1 .. 9.4


def expected_calibration_error(stated: Tensor, happened: Tensor, bins: int = BINS) -> float:
    """Mean gap between stated probabilities [R] and how often it happened [R] bool, over equal-width bins."""
    index = (stated * bins).long().clamp_max(bins - 1)
    count = torch.bincount(index, minlength=bins)
    said = torch.zeros(bins, dtype=torch.float64).index_add_(0, index, stated.double())
    was = torch.zeros(bins, dtype=torch.float64).index_add_(0, index, happened.double())
    return float((said - was).abs().sum() / count.sum())


def prefix_confidence(odds: Tensor, temperatures: list[float]) -> Tensor:
    """Log-odds [R, N] -> P(slots 1..k all accepted) [R, N]."""
    return torch.sigmoid(odds.double() / torch.tensor(temperatures, dtype=torch.float64)).cumprod(-1)


def sequential_temperatures(odds: Tensor, accepted: Tensor) -> list[float]:
    """One temperature a slot, in order, each minimising the error of "slots 1..k all accepted" with the earlier fixed.

    odds [R, N], accepted [R] in 0..N, of held-out rounds.
    """
    found: list[float] = []
    before = torch.ones(len(odds), dtype=torch.float64)
    for slot in range(odds.shape[1]):
        found.append(_best_temperature(before, odds[:, slot].double(), accepted > slot))
        before = before * torch.sigmoid(odds[:, slot].double() / found[-1])
    return found


def _best_temperature(before: Tensor, odds: Tensor, happened: Tensor) -> float:
    """Of one slot: P(slots before it accepted) [R], its log-odds [R], whether it and all before were accepted [R]."""

    def error(temperature: float) -> tuple[float, float]:
        stated = before * torch.sigmoid(odds / temperature)
        return expected_calibration_error(stated, happened), abs(temperature - 1)  # ties: closest to no change

    return min(GRID, key=error)
