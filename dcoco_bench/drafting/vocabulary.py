"""A pruned draft vocabulary: the head scores only the tokens the target really uses (`draft_vocab_size` + `d2t`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor


class Vocabulary:
    """Maps draft ids 0..V'-1 to target ids. `full(V)` is the identity."""

    def __init__(self, kept: Tensor, target_size: int) -> None:
        self.kept = kept  # [V'] target ids, ascending
        self.target_size = target_size
        self._draft_id = torch.full((target_size,), -1, dtype=torch.long, device=kept.device)
        self._draft_id[kept] = torch.arange(len(kept), device=kept.device)

    @classmethod
    def full(cls, target_size: int) -> Vocabulary:
        return cls(torch.arange(target_size), target_size)

    @classmethod
    def most_frequent(
        cls, answers: Iterable[list[int]], size: int, target_size: int, always: Iterable[int]
    ) -> Vocabulary:
        """The `size` tokens that answers use most (ties to the lower id); `always` (stop tokens) are kept whatever."""
        counts = Counter(token for answer in answers for token in answer)
        ranked = dict.fromkeys([*sorted(always), *sorted(counts, key=lambda t: (-counts[t], t)), *range(target_size)])
        return cls(torch.tensor(sorted(list(ranked)[:size])), target_size)

    @classmethod
    def from_offsets(cls, d2t: Tensor, target_size: int) -> Vocabulary:
        """The checkpoint form: target_id = draft_id + d2t[draft_id]."""
        return cls(torch.arange(len(d2t)) + d2t, target_size)

    @property
    def offsets(self) -> Tensor:
        return self.kept - torch.arange(len(self.kept), device=self.kept.device)

    @property
    def pruned(self) -> bool:
        return len(self.kept) < self.target_size

    def __len__(self) -> int:
        return len(self.kept)

    def to_target(self, draft_ids: Tensor) -> Tensor:
        return self.kept[draft_ids] if self.pruned else draft_ids

    def to_draft(self, target_ids: Tensor) -> Tensor:
        """-1 where the token is outside."""
        return self._draft_id[target_ids]

    def spread(self, probs: Tensor) -> Tensor:
        """Draft probabilities [..., V'] over the target's vocabulary [..., V]."""
        if not self.pruned:
            return probs
        out = probs.new_zeros(*probs.shape[:-1], self.target_size)
        out[..., self.kept] = probs
        return out

    def to(self, device: torch.device) -> Vocabulary:
        return Vocabulary(self.kept.to(device), self.target_size)
