"""Training batches: teacher answers with their features, anchors drawn anew each time, labels by layout-free slot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from dcoco_bench.training.teacher import Answer, read_shard, shards


@dataclass
class Batch:
    """B sequences, n blocks each. Slot i (0-based) of a block at anchor t is labelled with the data token x_{t+1+i}."""

    features: Tensor  # [B, S, taps*d] drafter features, zero-padded
    final: Tensor  # [B, S, d] what the target's LM head read at each position
    anchors: Tensor  # [B, n] positions
    anchor_ids: Tensor  # [B, n]
    labels: Tensor  # [B, n, N]
    supervised: Tensor  # [B, n, N] bool: the label lies inside the answer


@dataclass
class Sequence:
    answer: Answer
    features: Tensor  # [positions, (taps+1)*d] bfloat16; the last d columns are the final-norm output


def load_sequences(folder: Path, limit: int | None = None) -> list[Sequence]:
    """Every answer that has at least one token to predict after its first."""
    found: list[Sequence] = []
    for shard in shards(folder):
        found += [Sequence(answer, f) for answer, f in read_shard(shard) if len(answer.output_ids) >= 2]
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


def collate(sequences: list[Sequence], anchors: list[Tensor], slots: int, hidden: int) -> Batch:
    """Pad sequences to one length; `anchors[b]` are positions, short lists padded with unsupervised copies."""
    span = max(len(s.features) for s in sequences)
    count = max(len(a) for a in anchors)
    width = sequences[0].features.shape[1]
    features = torch.zeros(len(sequences), span, width)
    ids = torch.zeros(len(sequences), span + 1 + slots, dtype=torch.long)
    ends = torch.empty(len(sequences), dtype=torch.long)
    placed = torch.empty(len(sequences), count, dtype=torch.long)
    real = torch.zeros(len(sequences), count, dtype=torch.bool)
    for b, (sequence, chosen) in enumerate(zip(sequences, anchors, strict=True)):
        features[b, : len(sequence.features)] = sequence.features
        tokens = torch.tensor(sequence.answer.ids)
        ids[b, : len(tokens)], ends[b] = tokens, len(tokens)
        placed[b] = chosen[torch.arange(count) % len(chosen)]
        real[b, : len(chosen)] = True
    targets = placed[..., None] + torch.arange(1, slots + 1)  # [B, n, N]
    labels = ids.gather(1, targets.flatten(1)).view_as(targets)
    supervised = (targets < ends[:, None, None]) & real[..., None]
    return Batch(features[..., :-hidden], features[..., -hidden:], placed, ids.gather(1, placed), labels, supervised)


def anchor_range(answer: Answer) -> tuple[int, int]:
    """First and one-past-last position that can be an anchor: an output token with one after it."""
    return len(answer.prompt_ids), len(answer.prompt_ids) + len(answer.output_ids) - 1


def batches(
    sequences: list[Sequence], *, size: int, anchors: int, slots: int, hidden: int, generator: Generator
) -> Iterator[Batch]:
    """Endless epochs. Sequences of similar length go together (less padding); batch order is random."""
    while True:
        noise = torch.rand(len(sequences), generator=generator) * 64
        lengths = torch.tensor([len(s.features) for s in sequences])
        order = (lengths + noise).argsort()
        groups = [order[i : i + size].tolist() for i in range(0, len(order) - size + 1, size)] or [order.tolist()]
        for g in torch.randperm(len(groups), generator=generator).tolist():
            chosen = [sequences[i] for i in groups[g]]
            yield collate(chosen, [_draw_anchors(s.answer, anchors, generator) for s in chosen], slots, hidden)


def _draw_anchors(answer: Answer, count: int, generator: Generator) -> Tensor:
    """Up to `count` positions without replacement, sorted."""
    first, end = anchor_range(answer)
    return (torch.randperm(end - first, generator=generator)[:count] + first).sort().values
