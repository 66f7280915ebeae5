"""DCOCO's parameters: how it is trained, and how its walk is served. None = as the checkpoint was trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcoco_bench.drafting.block_method import BLOCK_PARAMS, at_least_one
from dcoco_bench.drafting.walks import Rule
from dcoco_bench.errors import UserError
from dcoco_bench.method import Param

K = 16


def switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


def one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text

    return parse


def above_zero(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError("must be a number above 0")
    return value


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


def check_trained_so(params: Mapping[str, Any], trained: Mapping[str, Any]) -> None:
    """A cell that names a training option must be served by a checkpoint trained that way. Raises UserError."""
    for name in asdict(TrainingOptions()):
        if params[name] is not None and params[name] != trained.get(name):
            raise UserError(
                f"dcoco@{name}={_text(params[name])}: the checkpoint was trained with {name}="
                f"{_text(trained.get(name))}; leave it out, or give a checkpoint trained that way"
            )


def check_can_serve(params: Mapping[str, Any], pair: bool, zero: str, first: bool) -> None:
    """An ablation can be switched on when serving, but not off: those weights were never trained. Raises UserError."""
    untrained = [
        ("pair", params["pair"] is True and not pair),
        ("zero", params["zero"] is not None and zero not in ("none", params["zero"])),
        ("first", params["first"] is True and not first),
    ]
    for name, bad in untrained:
        if bad:
            said = {"pair": pair, "zero": zero, "first": first}[name]
            raise UserError(
                f"dcoco@{name}={_text(params[name])}: the checkpoint was trained with {name}={_text(said)}; "
                "leave it out, or give a checkpoint trained that way"
            )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "nothing recorded" if value is None else str(value)
