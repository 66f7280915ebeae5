"""Serving Domino: one parallel pass, then a GRU step and a small product a slot."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import embedding as rows

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.packing import pack_linears, packing_helps
from dcoco_bench.drafting.sequential import Correction, SequentialDrafter
from dcoco_bench.drafting.vocabulary import Vocabulary

from .head import DominoHead


def stepwise(head: DominoHead, embedding: Tensor, hidden: Tensor) -> Correction:
    """The head over slot states [B, N, d], reading tokens as they are chosen."""
    state: Tensor | None = None

    def correct(slot: int, previous: Tensor) -> Tensor | None:
        nonlocal state
        state = head.step(rows(previous, embedding), state)
        if slot < head.config.pure_draft_prefix_len:
            return None
        return head.correction(hidden[:, slot], state)

    return correct


class DominoDrafter(SequentialDrafter):
    def __init__(
        self,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        embedding: Tensor,
        head: Tensor,
        slots: int | None,
        domino: DominoHead,
        *,
        sampled: bool = False,
    ) -> None:
        super().__init__(backbone, vocabulary, embedding, head, slots, sampled=sampled)
        self.domino = domino.to(device=embedding.device, dtype=embedding.dtype).eval().requires_grad_(False)
        if packing_helps(embedding.dtype, embedding.device):
            pack_linears(self.domino.embed_proj)

    def correction(self, hidden: Tensor) -> Correction:
        return stepwise(self.domino, self.embedding, hidden)

    def effective_config(self) -> dict[str, Any]:
        config = self.domino.config
        return super().effective_config() | {
            "gru": config.gru_hidden_dim,
            "rank": config.emb_dim,
            "pure": config.pure_draft_prefix_len,
            "domino_parameters": sum(p.numel() for p in self.domino.parameters()),
        }
