"""w . silu(x_a + y_b) + b for every pair (a, b): broadcast add, activation, dot product, a piece at a time."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import silu
from torch.utils.checkpoint import checkpoint

CPU_PIECE = 1 << 18  # activations at once when serving on a CPU: 1 MB of float32, which stays in a core's cache
PIECE = 1 << 26  # elsewhere, and when training: 256 MB


def score_pairs(before: Tensor, after: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """before [..., A, m], after [..., K, m], weight [m], bias [1] -> [..., A, K].

    The A*K*m activations of a pair of slots are never all kept: serving reuses one buffer, training recomputes each
    piece for its gradient (512 anchors x 15 pairs x 256 x 256 would be 2 GB a sequence).
    """
    lead = before.shape[:-2]
    x, y = before.flatten(0, -3), after.flatten(0, -3)
    training = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    size = CPU_PIECE if x.device.type == "cpu" and not training else PIECE
    step = max(1, size // (x.shape[1] * y.shape[1] * x.shape[2]))
    pieces = [(x[i : i + step], y[i : i + step]) for i in range(0, len(x), step)]
    if training:
        recompute = len(pieces) > 1
        scores = [
            checkpoint(_scored, *piece, weight, use_reentrant=False) if recompute else _scored(*piece, weight)
            for piece in pieces
        ]
    else:
        scores = [_scored_in_place(*piece, weight) for piece in pieces]
    out = torch.cat(scores) if scores else x.new_zeros(0, x.shape[1], y.shape[1])
    return (out + bias).view(*lead, x.shape[1], y.shape[1])


def _scored(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """[M, A, m], [M, K, m] -> [M, A, K]."""
    return silu(x[:, :, None] + y[:, None]) @ weight


def _scored_in_place(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    hidden = x[:, :, None] + y[:, None]
    return silu(hidden, inplace=True) @ weight
