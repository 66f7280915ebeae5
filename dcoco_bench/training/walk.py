"""Held-out tau by replay: what the drafter would have earned on answers the target has already given.

At T=0 the target's continuation is the recorded answer whatever is drafted, so walking the answer block by block with
the drafts made at each anchor gives exactly the serving tau, without running the target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dcoco_bench.training.batches import Batch, Sequence, anchor_range, collate


class Tally(NamedTuple):
    rounds: int
    delivered: int
    reached: list[int]  # rounds whose first i drafts were all accepted, i = 1..N

    @property
    def tau(self) -> float:
        """By round, delivered tokens (measurement.md 2.1)."""
        return self.delivered / self.rounds if self.rounds else float("nan")


def walk(sequences: list[Sequence], draft: Callable[[Batch], Tensor], slots: int, hidden: int) -> Tally:
    """`draft` maps a batch to token ids [1, n, N] for every possible anchor of one answer."""
    rounds = delivered = 0
    reached = [0] * slots
    for sequence in sequences:
        first, end = anchor_range(sequence.answer)
        batch = collate([sequence], [torch.arange(first, end)], slots, hidden)
        hits = ((draft(batch) == batch.labels) & batch.supervised)[0].long()
        accepted = hits.cumprod(-1).sum(-1).tolist()
        position, stop = first, len(sequence.answer.ids) - 1
        while position < stop:
            count = accepted[position - first]
            rounds += 1
            delivered += min(count + 1, stop - position)
            for i in range(count):
                reached[i] += 1
            position += count + 1
    return Tally(rounds, delivered, reached)
