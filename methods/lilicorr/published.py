"""LiLiCorr checkpoints as vLLM and Model-Optimizer know them: `LiLiCorrDraftModel` (methods.md 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from dcoco_bench.drafting.published import HeadForm, Published
from dcoco_bench.drafting.vocabulary import Vocabulary

from .config import LiLiCorrConfig
from .head import LiLiCorr


class LiLiCorrForm(HeadForm):
    architectures = ("LiLiCorrDraftModel",)
    folder = "lilicorr"
    prefixes = ("lilicorr.",)

    def head_config(self, published: Published, vocabulary: Vocabulary) -> dict[str, Any]:
        config = published.config
        known = {name: published.keys.get(name) for name in LiLiCorrConfig.__dataclass_fields__}
        return known | {
            "hidden_size": config.hidden_size,
            "block_size": config.block_size,
            "slots": config.slots,
            "rms_norm_eps": config.rms_norm_eps,
        }

    def module(self, config: Mapping[str, Any]) -> nn.Module:
        return LiLiCorr(LiLiCorrConfig.from_json(config))

    def keys(self, config: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in config.items() if name.startswith("lilicorr_")}
        return {"lilicorr_enabled": True} | kept
