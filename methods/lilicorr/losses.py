"""LiLiCorr's three terms over a lattice of scores (arXiv 2608.20530; NVIDIA Model-Optimizer, PR 2342)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .options import MARGIN


class Terms(NamedTuple):
    """Scalars, means over the supervised slots."""

    ce: Tensor  # of the right candidate after the right predecessor
    hinge: Tensor  # max(0, margin - (its score - the runner-up's))
    penalty: Tensor  # E_head[max(0, target logit of the right token - target logit of the candidate)]


def forced_rows(first: Tensor, transitions: Tensor, ranks: Tensor) -> Tensor:
    """Each slot's scores after the right predecessor, [M, N, K].

    first [M, K], transitions [M, N-1, K, K], ranks [M, N] of the right tokens.
    """
    index = ranks[:, :-1, None, None].expand(-1, -1, 1, transitions.shape[-1])
    return torch.cat([first[:, None], transitions.gather(2, index).squeeze(2)], dim=1)


def terms(rows: Tensor, ranks: Tensor, usable: Tensor, target_logits: Tensor) -> Terms:
    """rows [M, N, K], ranks [M, N] of the right tokens, usable [M, N] bool, the candidates' target logits [M, N, K].

    A slot counts where it and every slot before it are usable: beyond that the walk cannot be right.
    """
    mask = usable.long().cumprod(-1)
    count = mask.sum().clamp_min(1)
    right = ranks[..., None]
    ce = cross_entropy(rows.flatten(0, 1), ranks.flatten(), reduction="none").view_as(mask)
    gap = rows.gather(-1, right) - rows.scatter(-1, right, float("-inf")).amax(-1, keepdim=True)
    rejection = (target_logits.gather(-1, right) - target_logits).clamp_min(0)
    penalty = (rows.softmax(-1) * rejection).sum(-1)
    hinge = (MARGIN - gap).clamp_min(0).squeeze(-1)
    return Terms(*((part * mask).sum() / count for part in (ce, hinge, penalty)))
