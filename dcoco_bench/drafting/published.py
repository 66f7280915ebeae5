"""Published checkpoint forms: other projects' names and keys for the modules here (methods.md 1.1, 4.6, 5, 7, 8).

A form belongs to a method and says how its head is spelt outside. The backbone's names are the same everywhere.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.checkpoint import IGNORED, read_tensors
from dcoco_bench.drafting.config import DraftConfig, lift
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.errors import UserError

SHARED = ("embed_tokens.weight", "verifier_lm_head.weight", "verifier_norm.weight")  # copies of the target's
MASK_VECTOR = "mask_embedding.pt"


@dataclass(frozen=True)
class Published:
    """A published folder taken apart."""

    folder: Path
    architecture: str
    config: DraftConfig
    keys: Mapping[str, Any]  # every configuration key, nested ones lifted
    tensors: dict[str, Tensor] = field(repr=False)  # all of them, `model.` stripped


class PublishedForm:
    """A drafter without a head. `architectures[0]` is what is written, all are read."""

    architectures: tuple[str, ...]
    nested = True  # draft-only keys are written inside `dflash_config`
    layout_flag = "sample_from_anchor"

    def reads(self, published: Published) -> bool:
        return published.architecture in self.architectures

    def backbone(self, published: Published) -> BlockBackbone:
        """An empty backbone with every module that the checkpoint fills."""
        return BlockBackbone(published.config)


class HeadForm(PublishedForm, ABC):
    """`prefixes[0]` stands before the head's tensor names when they are written, any of them when they are read."""

    folder: str  # the head's subfolder here
    prefixes: tuple[str, ...] = ("",)

    @abstractmethod
    def head_config(self, published: Published, vocabulary: Vocabulary) -> dict[str, Any]:
        """The head's config.json here."""

    @abstractmethod
    def module(self, config: Mapping[str, Any]) -> nn.Module:
        """The head of such a config.json."""

    @abstractmethod
    def keys(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The published keys of a head with this config.json."""

    def ours(self, tensors: dict[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
        """Tensors whose shape differs between the two sides, theirs → ours."""
        return tensors

    def theirs(self, tensors: dict[str, Tensor], vocabulary: Vocabulary) -> dict[str, Tensor]:
        """Ours → theirs."""
        return tensors

    def strip(self, name: str) -> str:
        """A head tensor's name here."""
        return name.removeprefix(max((p for p in self.prefixes if name.startswith(p)), key=len, default=""))


def read_published(folder: Path, layout: Layout | None) -> Published:
    """Raises UserError where config.json or weights are missing, broken, or need what is not supported."""
    path = folder / "config.json"
    config = DraftConfig.read(folder, layout)
    keys = lift(json.loads(path.read_text()))
    named = keys.get("architectures") or [""]
    if (folder / MASK_VECTOR).exists():
        raise UserError(f"{folder / MASK_VECTOR}: a trained mask vector is not supported; use a draft without one")
    tensors = {name: tensor for name, tensor in read_tensors(folder).items() if name not in IGNORED}
    return Published(folder, str(named[0]), config, keys, tensors)
