"""Serving a sequential head: slot by slot, each slot's logits corrected by the tokens chosen before it.

The parallel pass and its N x V' unary logits are made once; a slot then costs the head's own small products.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.drafter import Proposal
from dcoco_bench.drafting.verify import draw, uniforms
from dcoco_bench.drafting.vocabulary import Vocabulary

# (slot 0..N-1, the token before it [B] as target ids) -> what is added to the slot's unary logits, [B, V'] or None.
# Slots are asked for in order, once each: the head may keep a state.
Correction = Callable[[int, Tensor], Tensor | None]


class SequentialWalk(NamedTuple):
    tokens: Tensor  # [B, N] draft ids
    probs: Tensor | None  # [B, N, V'] the law each was drawn from; None for the greedy walk


def walk(
    logits: Tensor,
    anchors: Tensor,
    correction: Correction,
    vocabulary: Vocabulary,
    temperature: float = 0.0,
    rolls: Tensor | None = None,
) -> SequentialWalk:
    """Unary logits [B, N, V'], anchors [B] (target ids). With `rolls` [B, N] in [0, 1) a draw at `temperature`."""
    previous, chosen, laws = anchors, [], []
    for slot in range(logits.shape[1]):
        added = correction(slot, previous)
        scores = logits[:, slot] if added is None else logits[:, slot] + added
        if rolls is None:
            chosen.append(scores.argmax(-1))
        else:
            laws.append((scores.float() / temperature).softmax(-1))
            chosen.append(draw(laws[-1], rolls[:, slot]))
        previous = vocabulary.to_target(chosen[-1])
    return SequentialWalk(torch.stack(chosen, dim=1), torch.stack(laws, dim=1) if laws else None)


class SequentialDrafter(BlockDrafter):
    """Greedy, a point mass at every temperature; with `sampled`, above T=0 a draw from softmax(logits / T)."""

    def __init__(
        self,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        embedding: Tensor,
        head: Tensor,
        slots: int | None,
        *,
        sampled: bool = False,
    ) -> None:
        super().__init__(backbone, vocabulary, embedding, head, slots)
        self.sampled = sampled

    @abstractmethod
    def correction(self, hidden: Tensor) -> Correction:
        """The head over slot states [B, N, d], for one walk."""

    def lengths(self, hidden: Tensor, anchors: Tensor, tokens: Tensor) -> Tensor | None:
        """[B] how many of the draft tokens [B, N] (target ids) to verify; None = all. Slot i's admission may look
        at slots before i only, or the output's law changes (methods.md 4.5)."""
        return None

    def choose(self, hidden: Tensor, anchors: Tensor, sampling: Sampling, generators: list[Generator]) -> Proposal:
        logits = self.head(hidden)
        drawn = self.sampled and not sampling.greedy
        rolls = uniforms(generators, hidden.shape[1], hidden.device) if drawn else None
        found = walk(logits, anchors, self.correction(hidden), self.vocabulary, sampling.temperature, rolls)
        tokens = self.vocabulary.to_target(found.tokens)
        probs = None if found.probs is None else self.vocabulary.spread(found.probs)
        return Proposal(tokens, probs, self.top(logits), self.lengths(hidden, anchors, tokens))

    def effective_config(self) -> dict[str, Any]:
        return super().effective_config() | {"draft": "sampled" if self.sampled else "argmax"}
