"""Serving DCOCO: one parallel pass, K candidates a slot, all transitions scored at once, one walk."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.drafter import Proposal
from dcoco_bench.drafting.lattice import top_candidates
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.drafting.walks import Rule, select

from .head import Corrector

ROWS = 8192  # embeddings projected at once


class DCOCODrafter(BlockDrafter):
    """Deterministic at every temperature: proposals are point masses (methods.md 6.4).

    The token half of every candidate depends on the token alone, so it is computed once, here, for the whole draft
    vocabulary: V' x 128 float32 (4 MB for 8,192 tokens, 78 MB for 151,936), and a round gathers N*K rows of it.
    """

    def __init__(
        self,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        embedding: Tensor,
        head: Tensor,
        slots: int | None,
        corrector: Corrector,
        *,
        k: int,
        rule: Rule = Rule.GREEDY,
        discount: float = 0.75,
        enabled: bool = True,
    ) -> None:
        super().__init__(backbone, vocabulary, embedding, head, slots)
        self.corrector = corrector.to(device=embedding.device, dtype=torch.float32).eval().requires_grad_(False)
        self.k, self.rule, self.discount, self.enabled = k, rule, discount, enabled
        self.token_halves = torch.cat(
            [self.corrector.token_half(embedding[rows]) for rows in self.vocabulary.kept.split(ROWS)]
        )

    def choose(self, hidden: Tensor, anchors: Tensor, sampling: Sampling, generators: list[Generator]) -> Proposal:
        if not self.enabled:
            return super().choose(hidden, anchors, sampling, generators)
        logits = self.head(hidden)
        found = top_candidates(logits, self.k)
        first = self.corrector.token_half(self.embedding[anchors]) if self.corrector.config.first else None
        scores = self.corrector.scores(found.logits, self.token_halves[found.ids], hidden, first)
        chosen = found.pick(select(self.rule, *scores, self.discount))
        return Proposal(self.vocabulary.to_target(chosen), candidates=self.top(logits))

    def effective_config(self) -> dict[str, Any]:
        c = self.corrector.config
        return super().effective_config() | {
            "k": self.k,
            "select": self.rule.value,
            "lambda": self.discount if self.rule is Rule.GEOMETRIC else None,
            "corrector": self.enabled,
            "pair": c.pair,
            "zero": c.zero,
            "first": c.first,
            "corrector_parameters": sum(p.numel() for p in self.corrector.parameters()),
        }
