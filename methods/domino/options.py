"""Domino's parameters: how it is trained, and how it is served. None = as the checkpoint was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcoco_bench.drafting.block_method import BLOCK_PARAMS, at_least_one
from dcoco_bench.drafting.params import SEQUENTIAL_DRAFT, above_zero, probability
from dcoco_bench.method import Param


@dataclass(frozen=True)
class TrainingOptions:
    """L = (1 - lambda) L_final + lambda L_base; lambda falls in a line from `lambda0` to 0 (methods.md 5)."""

    gamma: float = 4.0  # slot weights exp(-(i-1)/gamma): training.unary.DECAY, which needs torch; 7 for blocks of 16
    lambda0: float = 1.0
    decay_ratio: float = 0.5  # share of the budget over which lambda falls

    def base_share(self, progress: float) -> float:
        """lambda when `progress` (0..1) of the budget is spent."""
        return self.lambda0 * max(0.0, 1.0 - progress / self.decay_ratio)


PARAMS: Mapping[str, Param] = {
    **BLOCK_PARAMS,
    "draft": SEQUENTIAL_DRAFT,
    "gru": Param(None, at_least_one, "gru=1024 sets the prefix state's width; d/4, and at least 256, when not said"),
    "rank": Param(None, at_least_one, "rank=256 sets the bottleneck; d/16, and at least 64, when not said"),
    "pure": Param(None, at_least_one, "pure=1 leaves that many first slots to the drafter"),
    "gamma": Param(None, above_zero, "gamma=4 sets the loss weights exp(-(i-1)/gamma); published: 7, blocks of 16"),
    "lambda0": Param(None, probability, "lambda0=1 is the drafter's own loss' share at the start of training"),
    "decay_ratio": Param(None, above_zero, "decay_ratio=0.5 is the share of training over which lambda falls to 0"),
}


def training_options(params: Mapping[str, Any]) -> TrainingOptions:
    return TrainingOptions(**{name: params[name] for name in asdict(TrainingOptions()) if params[name] is not None})
