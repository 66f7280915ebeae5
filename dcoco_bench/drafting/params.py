"""Parsers of parameters that several methods have, and the check of training options against a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dcoco_bench.errors import UserError
from dcoco_bench.method import Param

if TYPE_CHECKING:
    from dcoco_bench.drafting.vocabulary import Vocabulary  # needs torch


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


def not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError("must be a number, 0 or more")
    return value


def probability(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must lie in [0, 1]")
    return value


def switch(text: str) -> bool:
    return one_of("on", "off")(text) == "on"


DRAFT = Param(
    "argmax",
    one_of("argmax", "sampled"),
    "draft=argmax (a point mass) or draft=sampled (softmax over the candidates) at temperatures above 0",
    serving_only=True,
)


SEQUENTIAL_DRAFT = Param(
    "argmax",
    one_of("argmax", "sampled"),
    "draft=argmax (a point mass) or draft=sampled (softmax over the draft vocabulary) at temperatures above 0",
    serving_only=True,
)


def check_k(method: str, k: int, vocabulary: Vocabulary) -> None:
    """Candidates of a slot come from the draft vocabulary. Raises UserError."""
    size = len(vocabulary)
    if k > size:
        raise UserError(f"{method}@k={k}: the draft vocabulary has {size} tokens; say k={size} or less")


def check_trained_so(method: str, params: Mapping[str, Any], trained: Mapping[str, Any], names: Iterable[str]) -> None:
    """A cell that names a training option must be served by a checkpoint trained that way. Raises UserError."""
    for name in names:
        said, recorded = params[name], trained.get(name)
        if said is not None and said != recorded:
            shown = "nothing recorded" if recorded is None else _text(recorded)
            raise UserError(
                f"{method}@{name}={_text(said)}: the checkpoint was trained with {name}={shown}; "
                "leave it out, or give a checkpoint trained that way"
            )


def _text(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
