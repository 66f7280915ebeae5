"""Top-K candidates of every slot: what a corrector re-selects from (methods.md 6.1)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Candidates(NamedTuple):
    """The K best draft ids of each slot, best first."""

    ids: Tensor  # [..., N, K] draft-vocabulary ids; rank 0 is the drafter's own argmax, also under ties
    logits: Tensor  # [..., N, K] float32, descending

    def rank_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Draft ids [..., N] (-1: outside the vocabulary) -> their rank (0 where absent) and whether they are there."""
        found = self.ids == ids[..., None]
        return found.int().argmax(-1), found.any(-1)

    def pick(self, ranks: Tensor) -> Tensor:
        """Ranks [..., N] -> draft ids [..., N]."""
        return self.ids.gather(-1, ranks[..., None]).squeeze(-1)


def top_candidates(logits: Tensor, k: int) -> Candidates:
    """The k largest of unary logits [..., N, V']."""
    values, ids = logits.topk(k, dim=-1)
    # topk orders ties as it likes; argmax takes the lowest id, and with no correction the walk must equal it.
    best = logits.argmax(-1, keepdim=True)
    ids = ids.where(ids != best, ids[..., :1])
    ids[..., :1] = best
    return Candidates(ids, values.float())
