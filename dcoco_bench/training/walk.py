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


def rounds(accepted: list[int]) -> list[int]:
    """Which anchors a decode would stop at: from the first, each round moves on by what it accepts, plus one."""
    visited, at = [], 0
    while at < len(accepted):
        visited.append(at)
        at += accepted[at] + 1
    return visited


def every_anchor(sequence: Sequence, slots: int, hidden: int) -> Batch:
    """One answer, a block at each of its possible anchors, in order."""
    first, end = anchor_range(sequence.answer)
    return collate([sequence], [torch.arange(first, end)], slots, hidden)


def accepted_prefix(drafted: Tensor, batch: Batch) -> list[int]:
    """Draft tokens [1, n, N] that greedy verification accepts after each anchor of `every_anchor`."""
    hits = ((drafted == batch.labels) & batch.supervised)[0].long()
    return [int(count) for count in hits.cumprod(-1).sum(-1)]


def walk(sequences: list[Sequence], draft: Callable[[Batch], Tensor], slots: int, hidden: int) -> Tally:
    """`draft` maps a batch to token ids [1, n, N] for every possible anchor of one answer."""
    count = delivered = 0
    reached = [0] * slots
    for sequence in sequences:
        batch = every_anchor(sequence, slots, hidden)
        accepted = accepted_prefix(draft(batch), batch)
        for at in rounds(accepted):
            count += 1
            delivered += min(accepted[at] + 1, len(accepted) - at)
            for i in range(accepted[at]):
                reached[i] += 1
    return Tally(count, delivered, reached)
