"""DSpark's parameters: how it is trained, and how it is served. None = as the checkpoint was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcoco_bench.drafting.block_method import BLOCK_PARAMS, at_least_one
from dcoco_bench.drafting.params import SEQUENTIAL_DRAFT, above_zero, not_negative, one_of, probability, switch
from dcoco_bench.method import Param

from .heads import HEADS


@dataclass(frozen=True)
class TrainingOptions:
    """L = ce CE + tv ||P - T||_1 + conf BCE (methods.md 4.3)."""

    ce: float = 0.1
    tv: float = 0.9
    conf: float = 1.0
    init: float = 0.02  # standard deviation of W_1 at the start
    detach: bool = False  # the confidence head's gradient does not reach the backbone


PARAMS: Mapping[str, Param] = {
    **BLOCK_PARAMS,
    "draft": SEQUENTIAL_DRAFT,
    "threshold": Param(
        0.0,
        probability,
        "threshold=0.3 verifies a block up to the first slot less likely to be accepted than that; 0 = all of it",
        serving_only=True,
    ),
    "head": Param(None, one_of(*HEADS), "head=vanilla, gated or rnn is the kind of Markov head"),
    "rank": Param(
        None, at_least_one, "rank=256 sets the Markov head's width; when not said d/10, at least 64 and at most 256"
    ),
    "ce": Param(None, not_negative, "ce=0.1 weighs the cross-entropy with the data"),
    "tv": Param(None, not_negative, "tv=0.9 weighs the distance to the target's distribution"),
    "conf": Param(None, not_negative, "conf=1 weighs the confidence head's loss"),
    "init": Param(None, above_zero, "init=0.02 is W_1's spread at the start; 1 learns in far fewer steps"),
    "detach": Param(None, switch, "detach=on keeps the confidence head's gradient out of the backbone"),
}


def training_options(params: Mapping[str, Any]) -> TrainingOptions:
    return TrainingOptions(**{name: params[name] for name in asdict(TrainingOptions()) if params[name] is not None})
