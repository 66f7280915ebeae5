"""What a method is: block layout, draft length, head, loss. One folder under `methods/` holds all about one method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dcoco_bench.errors import UserError, nearest

if TYPE_CHECKING:
    from dcoco_bench.drafting.backbone import BlockBackbone
    from dcoco_bench.drafting.drafter import Drafter
    from dcoco_bench.drafting.vocabulary import Vocabulary
    from dcoco_bench.training.objective import Objective, Tables
    from dcoco_bench.training.scaling import FeatureScale


@dataclass(frozen=True)
class Param:
    """A parameter of a method in a cell, e.g. `k` in `dcoco@k=8`. `parse` raises ValueError on bad text."""

    default: Any
    parse: Callable[[str], Any]
    help: str
    serving_only: bool = False  # `train --method name@key=value` refuses it: it has no say in what is learnt


@dataclass(frozen=True)
class VLLMDraft:
    """What the server's speculative configuration says beside the draft's folder."""

    method: str  # vLLM's own name
    slots: int  # num_speculative_tokens, N
    plugin: bool = False  # our plug-in chooses the tokens inside vLLM


class Method(ABC):
    """A plug-in. `name` is its folder's name; the instance is exported as `METHOD` by the folder's `__init__`."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `list methods`
    paper: ClassVar[str]  # arXiv id or "" for none
    needs_checkpoint: ClassVar[bool] = True
    params: ClassVar[Mapping[str, Param]] = {}

    @abstractmethod
    def drafter(self, checkpoint: Path | None, target: Any, params: Mapping[str, Any]) -> Drafter | None:
        """The drafter for an opened target (`drafting.target.Target`), or None for plain decoding.

        Raises UserError when the checkpoint does not fit the target.
        """

    def objective(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        params: Mapping[str, Any],
    ) -> Objective:
        """What `train` optimises: the backbone, the method's head, its loss. Raises UserError where there is none.

        `params` are resolved as for `drafter`, from `train --method name@key=value`.
        """
        raise UserError(f"method {self.name!r} has nothing to train; choose one that drafts")

    def vllm_draft(self, checkpoint: Path | None, params: Mapping[str, Any]) -> VLLMDraft | None:
        """How vLLM serves it; None = plain decoding. Raises UserError where it cannot."""
        raise UserError(f"method {self.name!r} is not served by the vllm engine; use --engine torch")

    def save(self, folder: Path, objective: Objective, tables: Tables) -> None:
        """Write what `train` learnt as a checkpoint that `drafter` loads."""
        raise UserError(f"method {self.name!r} has nothing to save; choose one that drafts")


@dataclass(frozen=True)
class MethodSpec:
    """`dcoco@k=8,select=global-sum` taken apart; `params` holds only what was said."""

    name: str
    params: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> MethodSpec:
        name, _, rest = text.strip().partition("@")
        pairs = []
        for item in filter(None, rest.split(",")):
            key, eq, value = item.partition("=")
            if not eq or not key.strip() or not value.strip():
                raise UserError(f"method {text!r}: {item!r} is not key=value; write e.g. dflash@n=4")
            pairs.append((key.strip(), value.strip()))
        return cls(name, tuple(sorted(pairs)))

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any], known: Mapping[str, Param]) -> MethodSpec:
        """The spec that resolves to these values."""
        words = {True: "on", False: "off"}
        said = {k: v for k, v in values.items() if v != known[k].default}
        return cls(name, tuple(sorted((k, words[v] if isinstance(v, bool) else str(v)) for k, v in said.items())))

    def __str__(self) -> str:
        return self.name + ("@" + ",".join(f"{k}={v}" for k, v in self.params) if self.params else "")

    def resolve_for_training(self, known: Mapping[str, Param]) -> dict[str, Any]:
        """As `resolve`; raises UserError for a parameter that only serving reads."""
        values = self.resolve(known)
        if idle := [key for key, _ in self.params if known[key].serving_only]:
            usable = ", ".join(key for key, param in known.items() if not param.serving_only) or "none"
            raise UserError(
                f"train --method {self}: {idle[0]} is read when serving, not when training; usable here: {usable}"
            )
        return values

    def resolve(self, known: Mapping[str, Param]) -> dict[str, Any]:
        """Parsed values of every parameter, defaults filled in."""
        values = {key: param.default for key, param in known.items()}
        for key, text in self.params:
            if key not in known:
                raise UserError(
                    f"method {self.name!r} has no parameter {key!r}; {nearest(key, list(known) or ['none'])}"
                )
            try:
                values[key] = known[key].parse(text)
            except ValueError as error:
                raise UserError(f"method {self}: {key}={text} is not usable ({error}); {known[key].help}") from None
        return values


def split_specs(text: str) -> list[str]:
    """`vanilla,dcoco@k=8,select=greedy` -> two specs: a part with `=` but no `@` continues the one before it."""
    specs: list[str] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        if "=" in part and "@" not in part and specs:
            specs[-1] += "," + part
        else:
            specs.append(part)
    return specs
