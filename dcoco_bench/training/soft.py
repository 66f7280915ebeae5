"""Soft labels: the target's own distribution, which tells what else would have been likely in a slot."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from dcoco_bench.training.batches import Batch


class Soft(NamedTuple):
    share: float  # of the loss; the rest is the hard labels'
    probs: Tensor  # [B, n, N, V'] after each slot's data prefix, renormalised over the draft vocabulary


@torch.no_grad()
def soft_labels(share: float, batch: Batch, head_rows: Tensor) -> Soft | None:
    """Slot i (1-based) of an anchor at t is predicted from position t+i-1 of `batch.final`; head_rows [V', d].

    None for a share of 0. Positions past the answer repeat the last; such slots are not supervised.
    """
    if not share:
        return None
    slots = torch.arange(batch.labels.shape[-1], device=batch.anchors.device)
    positions = (batch.anchors[..., None] + slots).clamp_max(batch.final.shape[1] - 1)  # [B, n, N]
    rows = torch.arange(len(positions), device=positions.device)[:, None, None] * batch.final.shape[1]
    needed, index = torch.unique(rows + positions, return_inverse=True)  # blocks overlap: each position once
    with torch.autocast(head_rows.device.type, enabled=False):
        probs = linear(batch.final.flatten(0, 1)[needed].float(), head_rows.float()).softmax(-1)
    return Soft(share, probs[index])
