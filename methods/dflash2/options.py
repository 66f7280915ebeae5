"""DFlash2's parameters: how it is trained, and how it is served. None = as the checkpoint was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcoco_bench.drafting.block_method import BLOCK_PARAMS, at_least_one
from dcoco_bench.drafting.params import DRAFT, above_zero, one_of, switch
from dcoco_bench.method import Param

K, RANK = 16, 64


@dataclass(frozen=True)
class TrainingOptions:
    """The selector's loss. The official one is unpublished; these are the community's variants (methods.md 7)."""

    beta: float = 1.0  # L = L_DFlash + beta CE
    gold: str = "drop"  # where the data token is no candidate: drop the slot, or insert it for training
    detach: bool = False  # the selector's loss does not reach the backbone
    conv: bool = False  # grouped dynamic convolutions around every sublayer of the backbone


PARAMS: Mapping[str, Param] = {
    **BLOCK_PARAMS,
    "k": Param(None, at_least_one, f"k=8 selects among 8 candidates a slot; as trained ({K}) when not said"),
    "rank": Param(None, at_least_one, f"rank=256 sets the codebooks' width; {RANK} when not said"),
    "draft": DRAFT,
    "beta": Param(None, above_zero, "beta=1 weighs the selector's loss against the drafter's"),
    "gold": Param(None, one_of("drop", "insert"), "gold=drop skips slots whose data token is no candidate, or insert"),
    "detach": Param(None, switch, "detach=on keeps the selector's gradient out of the backbone"),
    "conv": Param(None, switch, "conv=on adds the published draft's grouped dynamic convolutions to the backbone"),
}


def training_options(params: Mapping[str, Any]) -> TrainingOptions:
    return TrainingOptions(**{name: params[name] for name in asdict(TrainingOptions()) if params[name] is not None})
