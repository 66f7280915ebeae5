"""DSpark checkpoints of DeepSpec (`Qwen3DSparkModel`), SpecForge (nested keys) and speculators (methods.md 4.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dcoco_bench.drafting.published import HeadForm, Published
from dcoco_bench.drafting.vocabulary import Vocabulary

from .heads import DSparkConfig, DSparkHead

PROJECTION = "confidence_head.proj.weight"
TABLE = "markov_head.markov_w1.weight"


class DSparkForm(HeadForm):
    """DeepSpec's "DFlash" is the same architecture with a Markov rank of 0: the plain drafter's."""

    architectures = ("Qwen3DSparkModel", "DSparkDraftModel", "DSparkSpeculator")
    folder = "dspark"
    nested = False

    def reads(self, published: Published) -> bool:
        return super().reads(published) and published.keys.get("markov_rank", 0) != 0

    def head_config(self, published: Published, vocabulary: Vocabulary) -> dict[str, Any]:
        keys = published.keys
        return {
            "hidden_size": published.config.hidden_size,
            "vocab_size": len(vocabulary),
            "previous_size": vocabulary.target_size,
            "markov_rank": keys.get("markov_rank"),
            "markov_head_type": keys.get("markov_head_type", "vanilla"),
            "confidence": bool(keys.get("enable_confidence_head", False)),
        }

    def module(self, config: Mapping[str, Any]) -> nn.Module:
        return DSparkHead(DSparkConfig.from_json(config))

    def keys(self, config: Mapping[str, Any]) -> dict[str, Any]:
        confident = config.get("confidence", True)
        kept = {name: config[name] for name in ("markov_rank", "markov_head_type")}
        return kept | {"enable_confidence_head": confident, "confidence_head_with_markov": confident}

    def ours(self, tensors: dict[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
        """A confidence that reads the state alone is one whose weights for the token before are zero."""
        weight = tensors.get(PROJECTION)
        if weight is None or weight.shape[1] != config["hidden_size"]:
            return tensors
        blind = weight.new_zeros(1, config["markov_rank"])
        return tensors | {PROJECTION: torch.cat([weight, blind], dim=1)}

    def theirs(self, tensors: dict[str, Tensor], vocabulary: Vocabulary) -> dict[str, Tensor]:
        """A row of W_1 for every token of the target: those outside the draft vocabulary repeat the shared one."""
        table = tensors[TABLE]
        if len(table) == vocabulary.target_size:
            return tensors
        inside = vocabulary.to_draft(torch.arange(vocabulary.target_size))
        return tensors | {TABLE: table[torch.where(inside < 0, len(table) - 1, inside)]}
