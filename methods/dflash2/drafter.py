"""Serving DFlash2: one parallel pass, K candidates a slot, all edges at once, one walk."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.lattice import Candidates
from dcoco_bench.drafting.lattice_drafter import LatticeDrafter
from dcoco_bench.drafting.vocabulary import Vocabulary

from .convs import conv_shape
from .head import CandidateSelector


class DFlash2Drafter(LatticeDrafter):
    def __init__(
        self,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        embedding: Tensor,
        head: Tensor,
        slots: int | None,
        selector: CandidateSelector,
        *,
        k: int,
        sampled: bool = False,
    ) -> None:
        super().__init__(backbone, vocabulary, embedding, head, slots, k=k, sampled=sampled)
        self.selector = selector.to(embedding.device).eval().requires_grad_(False)

    def scores(self, hidden: Tensor, logits: Tensor, found: Candidates, anchors: Tensor) -> tuple[Tensor, Tensor]:
        return self.selector.scores(found.logits, found.ids, hidden, self.vocabulary.to_draft(anchors))

    def effective_config(self) -> dict[str, Any]:
        return super().effective_config() | {
            "selector_rank": self.selector.config.selector_rank,
            "conv": conv_shape(self.backbone) is not None,
            "selector_parameters": sum(p.numel() for p in self.selector.parameters()),
        }
