"""Serving a selector over the drafter's own candidates: K a slot, scored at once, one walk (methods.md 7, 8)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Generator, Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.drafter import Proposal
from dcoco_bench.drafting.lattice import Candidates, top_candidates
from dcoco_bench.drafting.sampled_walk import sample
from dcoco_bench.drafting.verify import uniforms
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.drafting.walks import greedy


class LatticeDrafter(BlockDrafter):
    """Greedy walk, a point mass at every temperature; with `sampled`, above T=0 a draw from softmax(score / T)."""

    def __init__(
        self,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        embedding: Tensor,
        head: Tensor,
        slots: int | None,
        *,
        k: int,
        sampled: bool = False,
    ) -> None:
        super().__init__(backbone, vocabulary, embedding, head, slots)
        self.k, self.sampled = k, sampled

    @abstractmethod
    def scores(self, hidden: Tensor, logits: Tensor, found: Candidates, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """Slot states [B, N, d], unary logits [B, N, V'], candidates, anchors [B] (target ids) -> `walks`' scores.

        first [B, K] and transitions [B, N-1, K, K], float32.
        """

    def choose(self, hidden: Tensor, anchors: Tensor, sampling: Sampling, generators: list[Generator]) -> Proposal:
        logits = self.head(hidden)
        found = top_candidates(logits, self.k)
        first, transitions = self.scores(hidden, logits, found, anchors)
        if sampling.greedy or not self.sampled:
            chosen = self.vocabulary.to_target(found.pick(greedy(first, transitions)))
            return Proposal(chosen, candidates=self.top(logits))
        rolls = uniforms(generators, hidden.shape[1], hidden.device)
        ranks, law = sample(first, transitions, sampling.temperature, rolls)
        ids = self.vocabulary.to_target(found.ids)
        probs = law.new_zeros(*ids.shape[:2], self.vocabulary.target_size).scatter_(-1, ids, law)
        return Proposal(self.vocabulary.to_target(found.pick(ranks)), probs, self.top(logits))

    def effective_config(self) -> dict[str, Any]:
        return super().effective_config() | {"k": self.k, "draft": "sampled" if self.sampled else "argmax"}
