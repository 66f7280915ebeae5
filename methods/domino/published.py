"""SpecForge's Domino checkpoints: `DominoDraftModel`, head names flat or under `logit_head.` (methods.md 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from dcoco_bench.drafting.published import HeadForm, Published
from dcoco_bench.drafting.vocabulary import Vocabulary

from .head import DominoConfig, DominoHead


class DominoForm(HeadForm):
    architectures = ("DominoDraftModel",)
    folder = "domino"
    prefixes = ("", "logit_head.")
    layout_flag = "shift_label"

    def reads(self, published: Published) -> bool:
        return super().reads(published) or published.keys.get("projector_type") == "domino"  # speculators' dflash

    def head_config(self, published: Published, vocabulary: Vocabulary) -> dict[str, Any]:
        keys = published.keys
        sizes = {name: keys.get(name) for name in ("gru_hidden_dim", "emb_dim")}
        config = {"hidden_size": published.config.hidden_size, "vocab_size": len(vocabulary), **sizes}
        return config | {"pure_draft_prefix_len": keys.get("pure_draft_prefix_len", 1)}

    def module(self, config: Mapping[str, Any]) -> nn.Module:
        return DominoHead(DominoConfig.from_json(config))

    def keys(self, config: Mapping[str, Any]) -> dict[str, Any]:
        kept = ("emb_dim", "gru_hidden_dim", "pure_draft_prefix_len")
        return {"projector_type": "domino"} | {name: config[name] for name in kept}
