"""A walk drawn at T>0: every slot's candidate from the softmax of its scores after the candidate drawn before it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dcoco_bench.drafting.verify import draw


class SampledWalk(NamedTuple):
    ranks: Tensor  # [B, N]
    probs: Tensor  # [B, N, K] the law each rank was drawn from, given the ranks before it


def sample(first: Tensor, transitions: Tensor, temperature: float, rolls: Tensor) -> SampledWalk:
    """first [B, K], transitions [B, N-1, K, K] as in `walks`; rolls [B, N] in [0, 1), one a slot."""
    row = torch.arange(len(first), device=first.device)
    probs = [(first / temperature).softmax(-1)]
    ranks = [draw(probs[0], rolls[:, 0])]
    for slot in range(transitions.shape[1]):
        probs.append((transitions[row, slot, ranks[-1]] / temperature).softmax(-1))
        ranks.append(draw(probs[-1], rolls[:, slot + 1]))
    return SampledWalk(torch.stack(ranks, dim=1), torch.stack(probs, dim=1))
