"""LiLiCorr's parameters: how it is trained, and how it is served. None = as the checkpoint was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcoco_bench.drafting.block_method import BLOCK_PARAMS, at_least_one
from dcoco_bench.drafting.params import DRAFT, above_zero, one_of
from dcoco_bench.method import Param

K, WIDTH, SCALE, HEADS = 16, 128, 8.0, 4

# NVIDIA Model-Optimizer's recipes (PR 2342): absolute weights of cross-entropy, hinge and penalty.
VARIANTS = {"base": (0.25, 0.0, 0.25), "margin": (0.125, 0.125, 0.25)}
MARGIN = 2.0  # the hinge's width, in score units


@dataclass(frozen=True)
class TrainingOptions:
    variant: str = "base"
    blocks: int = 16  # blocks of an answer that the head's loss scores, drawn anew each step


PARAMS: Mapping[str, Param] = {
    **BLOCK_PARAMS,
    "k": Param(None, at_least_one, f"k=8 keeps 8 candidates a slot, at most as many as trained ({K}, when not said)"),
    "width": Param(None, at_least_one, f"width=128 is the head's hidden size, a multiple of {HEADS}; {WIDTH} unsaid"),
    "scale": Param(None, above_zero, f"scale=8 multiplies the cosines; {SCALE:g} when not said"),
    "draft": DRAFT,
    "variant": Param(
        None, one_of(*VARIANTS), "variant=base (cross-entropy and penalty) or margin (part of it as a hinge)"
    ),
    "blocks": Param(None, at_least_one, "blocks=16 is how many blocks of an answer the head's loss sees a step"),
}


def training_options(params: Mapping[str, Any]) -> TrainingOptions:
    return TrainingOptions(**{name: params[name] for name in asdict(TrainingOptions()) if params[name] is not None})
