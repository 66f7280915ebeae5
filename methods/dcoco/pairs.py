"""w . silu(x_a + y_b) + b for every pair (a, b): broadcast add, activation, dot product, a piece at a time."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import silu
from torch.utils.checkpoint import checkpoint

CPU_PIECE = 1 << 18  # activations at once when serving on a CPU: 1 MB of float32, which stays in a core's cache
PIECE = 1 << 26  # elsewhere, and when training: 256 MB
SAFE = 80.0  # e^80 is finite in float32, and so is every product below


def score_pairs(before: Tensor, after: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """before [..., A, m], after [..., K, m], weight [m], bias [1] -> [..., A, K].

    The A*K*m activations of a pair of slots are never all kept: serving reuses its buffers, training recomputes each
    piece for its gradient (512 anchors x 15 pairs x 256 x 256 would be 2 GB a sequence).
    """
    lead = before.shape[:-2]
    x, y = before.flatten(0, -3), after.flatten(0, -3)
    training = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    on_cpu = x.device.type == "cpu" and not training
    step = max(1, (CPU_PIECE if on_cpu else PIECE) // (x.shape[1] * y.shape[1] * x.shape[2]))
    if on_cpu and len(x) and float(x.abs().amax() + y.abs().amax()) < SAFE:
        return (_by_exponentials(x, y, weight, step) + bias).view(*lead, x.shape[1], y.shape[1])
    pieces = [(x[i : i + step], y[i : i + step]) for i in range(0, len(x), step)]
    scored = [
        checkpoint(_scored, *piece, weight, use_reentrant=False)
        if training and len(pieces) > 1
        else _scored(*piece, weight)
        for piece in pieces
    ]
    out = torch.cat(scored) if scored else x.new_zeros(0, x.shape[1], y.shape[1])
    return (out + bias).view(*lead, x.shape[1], y.shape[1])


def _scored(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """[M, A, m], [M, K, m] -> [M, A, K]."""
    return silu(x[:, :, None] + y[:, None]) @ weight


def _by_exponentials(x: Tensor, y: Tensor, weight: Tensor, step: int) -> Tensor:
    """The same: silu(x + y) = (x + y) / (1 + e^-x e^-y), so that a candidate's exponential is taken once, not K times.

    On a CPU the exponential is most of the work; this takes about 0.6 of the plain form's time.
    """
    out = x.new_empty(len(x), x.shape[1], y.shape[1])
    size = (min(step, len(x)), x.shape[1], y.shape[1], x.shape[2])
    sums, divisors, one = x.new_empty(size), x.new_empty(size), x.new_ones(())
    x_exp, y_exp = x.neg().exp_(), y.neg().exp_()
    for i in range(0, len(x), step):
        rows = slice(i, min(i + step, len(x)))
        total, divisor = sums[: rows.stop - i], divisors[: rows.stop - i]
        torch.add(x[rows, :, None], y[rows, None], out=total)
        torch.addcmul(one, x_exp[rows, :, None], y_exp[rows, None], out=divisor)
        torch.matmul(total.div_(divisor), weight, out=out[rows])
    return out
