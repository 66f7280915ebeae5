"""Serving LiLiCorr: one parallel pass, K candidates a slot, one pass over the lattice, one walk."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.drafter import Lap, Proposal
from dcoco_bench.drafting.lattice import Candidates
from dcoco_bench.drafting.lattice_drafter import LatticeDrafter
from dcoco_bench.drafting.vocabulary import Vocabulary

from .head import LiLiCorr

ROWS = 8192  # embeddings projected at once


class LiLiCorrDrafter(LatticeDrafter):
    """Its anchor vector is the context vector of the last position the target has processed, t-1.

    An observation may reach past the accepted positions, and rows of a batch accept different numbers, so which
    position is the last is known only when the next block is proposed. Until then the features of every row's newest
    Q+1 positions are kept, as many as a round can observe; a position's place is its number modulo Q+1.
    """

    def __init__(
        self,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        embedding: Tensor,
        head: Tensor,
        slots: int | None,
        lilicorr: LiLiCorr,
        *,
        k: int,
        sampled: bool = False,
    ) -> None:
        super().__init__(backbone, vocabulary, embedding, head, slots, k=k, sampled=sampled)
        self.lilicorr = lilicorr.to(device=embedding.device, dtype=torch.float32).eval().requires_grad_(False)
        self.tokens = torch.cat(
            [lilicorr.project_tokens(embedding[rows]) for rows in self.vocabulary.kept.split(ROWS)]
        )  # [V', w]
        self.keep = self.config.block_size + 1

    def allocate(self, rows: int, capacity: int) -> None:
        super().allocate(rows, capacity)
        weight = self.backbone.fc.weight
        self.recent = weight.new_zeros(rows, self.keep, weight.shape[1])

    def observe(self, lo: int, features: Tensor, starts: Tensor) -> None:
        super().observe(lo, features, starts)
        last = features[:, -self.keep :]
        skipped = features.shape[1] - last.shape[1]
        places = (starts[:, None] + torch.arange(skipped, features.shape[1], device=starts.device)) % self.keep
        rows = torch.arange(lo, lo + len(starts), device=starts.device)[:, None]
        self.recent[rows, places] = last

    def propose(
        self, lo: int, anchors: Tensor, positions: Tensor, sampling: Sampling, generators: list[Generator], lap: Lap
    ) -> Proposal:
        rows = torch.arange(lo, lo + len(anchors), device=anchors.device)
        self.context = self.backbone.context(self.recent[rows, (positions - 1) % self.keep])  # [B, d]
        return super().propose(lo, anchors, positions, sampling, generators, lap)

    def scores(self, hidden: Tensor, logits: Tensor, found: Candidates, anchors: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = found.logits - logits.float().logsumexp(-1, keepdim=True)
        return self.lilicorr.scores(self.tokens[found.ids], log_probs, hidden, self.context)

    def move_row(self, source: int, target: int, length: int) -> None:
        super().move_row(source, target, length)
        self.recent[target] = self.recent[source]

    def effective_config(self) -> dict[str, Any]:
        c = self.lilicorr.config
        return super().effective_config() | {
            "lilicorr_hidden_size": c.lilicorr_hidden_size,
            "lilicorr_logit_scale": c.lilicorr_logit_scale,
            "lilicorr_parameters": sum(p.numel() for p in self.lilicorr.parameters()),
        }
