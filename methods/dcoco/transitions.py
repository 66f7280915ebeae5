"""L_corr: which transitions are supervised, and the softmax over them (methods.md 6.5)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from dcoco_bench.training.objective import slot_weights

from .options import TrainingOptions


class Labels(NamedTuple):
    """Of M blocks."""

    ranks: Tensor  # [M, N] the right token's rank among its slot's candidates
    usable: Tensor  # [M, N] bool: inside the answer, and among the candidates. No gold is inserted
    agreed: Tensor  # [M, N] bool: the data token is the verifier's


def pair_mask(labels: Labels, prefix_mask: str) -> Tensor:
    """m_p [M, N-1] bool: both ends usable; `cumulative` also asks that the walk could have come this far.

    Greedy answers agree with the verifier everywhere, so there the two differ by candidate misses only.
    """
    mask = labels.usable[:, :-1] & labels.usable[:, 1:]
    if prefix_mask == "cumulative":
        mask = mask & (labels.usable & labels.agreed)[:, :-1].long().cumprod(-1).bool()
    return mask


def transition_loss(
    first: Tensor | None, transitions: Tensor, labels: Labels, options: TrainingOptions
) -> tuple[Tensor, Tensor]:
    """sum_p w_p m_p (logsumexp_ab S_p - S_p(a*, b*)) / sum_p w_p m_p, and m [M, N-1]. Zero where no m_p is set.

    transitions [M, N-1, K, K]. `softmax="row"` sums over b at a = a* only. `first` [M, K] adds the anchor's
    transition as p = 0, whose rows are only one.
    """
    before, after = labels.ranks[:, :-1], labels.ranks[:, 1:]
    rows = transitions.gather(2, before[..., None, None].expand(-1, -1, 1, transitions.shape[-1])).squeeze(2)
    right = rows.gather(2, after[..., None]).squeeze(2)
    total = rows.logsumexp(-1) if options.softmax == "row" else transitions.flatten(2).logsumexp(-1)
    losses, mask = total - right, pair_mask(labels, options.prefix_mask)
    weights = slot_weights(mask.shape[1], options.rho, losses.device) * mask
    if first is not None:
        start = first.logsumexp(-1) - first.gather(1, labels.ranks[:, :1]).squeeze(1)
        weight = math.exp(1 / options.rho) * labels.usable[:, 0]
        losses = torch.cat([start[:, None], losses], dim=1)
        weights = torch.cat([weight[:, None], weights], dim=1)
    value = (losses * weights).sum() / weights.sum().clamp_min(1e-6)
    return value, mask
