"""z-lab's DFlash2 checkpoints: `DFlash2DraftModel`, with or without convolutions (methods.md 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.published import HeadForm, Published
from dcoco_bench.drafting.vocabulary import Vocabulary

from .convs import GROUP, TAPS, load_convs
from .head import CandidateSelector, SelectorConfig
from .options import K


class DFlash2Form(HeadForm):
    architectures = ("DFlash2DraftModel", "DFlash2Speculator")
    folder = "candidate_selector"
    prefixes = ("candidate_selector.",)

    def backbone(self, published: Published) -> BlockBackbone:
        return load_convs(super().backbone(published), published.tensors)

    def head_config(self, published: Published, vocabulary: Vocabulary) -> dict[str, Any]:
        keys = published.keys
        sizes = {"hidden_size": published.config.hidden_size, "vocab_size": len(vocabulary)}
        return sizes | {"selector_rank": keys.get("selector_rank"), "selector_top_k": keys.get("selector_top_k", K)}

    def module(self, config: Mapping[str, Any]) -> nn.Module:
        return CandidateSelector(SelectorConfig.from_json(config))

    def keys(self, config: Mapping[str, Any]) -> dict[str, Any]:
        convs = {"conv_kernel_size": TAPS, "conv_group_size": GROUP} if config.get("training", {}).get("conv") else {}
        return {name: config[name] for name in ("selector_rank", "selector_top_k")} | convs
