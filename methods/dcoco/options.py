"""DCOCO's parameters: how it is trained, and how its walk is served. None = as the checkpoint was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcoco_bench.drafting.block_method import BLOCK_PARAMS, at_least_one
from dcoco_bench.drafting.params import above_zero, check_trained_so, one_of, switch
from dcoco_bench.drafting.walks import Rule
from dcoco_bench.method import Param

K = 16


def discount(text: str) -> float:
    value = above_zero(text)
    if value > 1:
        raise ValueError("must lie in (0, 1]")
    return value


def rule(text: str) -> Rule:
    return Rule(one_of(*Rule)(text))


@dataclass(frozen=True)
class TrainingOptions:
    """The loss, methods.md 6.5. Kept in the checkpoint, so that a cell which names one is checked against it."""

    rho: float = 4.0  # w_p = exp(-(p-1)/rho)
    alpha: float = 1.0  # L = L_draft + alpha L_corr
    prefix_mask: str = "pair"  # cumulative: and every earlier slot must be the data's, and among its candidates
    softmax: str = "joint"  # over all K^2 pairs; row: over successors of the right predecessor
    detach: bool = False  # L_corr does not reach the backbone
    frozen: bool = False  # the backbone is not trained at all
    labels: str = "data"  # verifier: argmax of the LM head on the target's recorded states
    blocks: int = 16  # blocks of an answer that L_corr scores, drawn anew each step


PARAMS: Mapping[str, Param] = {
    **BLOCK_PARAMS,
    "k": Param(None, at_least_one, f"k=8 re-selects among 8 candidates a slot; as trained ({K}) when not said"),
    "select": Param(Rule.GREEDY, rule, "select=greedy, global-sum or geometric (see lambda)", serving_only=True),
    "lambda": Param(0.75, discount, "lambda=0.75 is the geometric rule's discount a slot", serving_only=True),
    "corrector": Param(True, switch, "corrector=off serves the trained drafter's own argmax", serving_only=True),
    "pair": Param(None, switch, "pair=off feeds a zero pair state"),
    "zero": Param(
        None,
        one_of("none", "z", "token", "state"),
        "zero=z zeroes the candidates, zero=token or state one half of them",
    ),
    "first": Param(None, switch, "first=on scores the anchor -> slot 1 transition too"),
    "rho": Param(None, above_zero, "rho=4 sets the loss weights exp(-(p-1)/rho)"),
    "alpha": Param(None, above_zero, "alpha=1 weighs the corrector's loss against the drafter's"),
    "prefix_mask": Param(None, one_of("pair", "cumulative"), "prefix_mask=pair or cumulative"),
    "softmax": Param(None, one_of("joint", "row"), "softmax=joint (all K^2 pairs) or row (successors only)"),
    "detach": Param(None, switch, "detach=on keeps the corrector's gradient out of the backbone"),
    "frozen": Param(None, switch, "frozen=on trains the corrector only"),
    "labels": Param(
        None, one_of("data", "verifier"), "labels=data for greedy teacher answers, labels=verifier for sampled ones"
    ),
    "blocks": Param(None, at_least_one, "blocks=16 is how many blocks of an answer the corrector's loss sees a step"),
}


def training_options(params: Mapping[str, Any]) -> TrainingOptions:
    said = {name: params[name] for name in asdict(TrainingOptions()) if params.get(name) is not None}
    return TrainingOptions(**said)


def check_can_serve(params: Mapping[str, Any], trained: Mapping[str, Any]) -> None:
    """A cell may name a training option that holds for this checkpoint, and may switch an ablation on, not off:
    those weights were never trained. Raises UserError."""
    ablated = [
        ("pair", params["pair"] is True),
        ("zero", trained["zero"] != "none"),
        ("first", params["first"] is True),
    ]
    names = [*asdict(TrainingOptions()), *(name for name, untrained in ablated if untrained)]
    check_trained_so("dcoco", params, trained, names)
