"""Paths through a candidate lattice: prefix-first greedy, Global-Sum, geometric discount (methods.md 6.3).

All three read the same scores: first [..., K] of slot 1's candidates, and transitions [..., N-1, K, K], where
transitions[..., p, a, b] scores candidate b of slot p+2 after candidate a of slot p+1 (slots counted from 1).
They maximise first(k_1) + sum_p d^p S_p(k_p, k_p+1), d = 1 for Global-Sum, 0 < d < 1 for the geometric discount; the
limit d -> 0 is the greedy walk.
"""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor


class Rule(StrEnum):
    GREEDY = "greedy"
    GLOBAL_SUM = "global-sum"
    GEOMETRIC = "geometric"


def select(rule: Rule, first: Tensor, transitions: Tensor, discount: float) -> Tensor:
    """Ranks [..., N] chosen by `rule`; `discount` is the geometric rule's. Ties go to the lower rank."""
    if rule is Rule.GREEDY:
        return greedy(first, transitions)
    return best_path(first, transitions, 1.0 if rule is Rule.GLOBAL_SUM else discount)


def greedy(first: Tensor, transitions: Tensor) -> Tensor:
    """The best candidate of slot 1, then always the best successor: O(NK), as verification stops at a first refusal."""
    following = transitions.argmax(-1)  # [..., N-1, K], for every predecessor at once
    ranks = [first.argmax(-1, keepdim=True)]
    for slot in range(transitions.shape[-3]):
        ranks.append(following[..., slot, :].gather(-1, ranks[-1]))
    return torch.cat(ranks, dim=-1)


def best_path(first: Tensor, transitions: Tensor, discount: float) -> Tensor:
    """The exact maximiser over all K^N paths, O(NK^2): Viterbi from the last slot back.

    In Horner form, first + d(S_1 + d(S_2 + ...)), a small d loses no precision, and what remains is a greedy walk
    over scores that look ahead.
    """
    ahead = torch.zeros_like(first)  # [..., K] the best that can follow each candidate of the slot
    scores: list[Tensor] = []
    for slot in reversed(range(transitions.shape[-3])):
        scores.insert(0, transitions[..., slot, :, :] + discount * ahead[..., None, :])
        ahead = scores[0].amax(-1)
    looking = torch.stack(scores, dim=-3) if scores else transitions
    return greedy(first + discount * ahead, looking)
