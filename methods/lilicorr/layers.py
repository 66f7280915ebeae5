"""LiLiCorr's transformer over the lattice: pre-RMSNorm attention with additive biases, non-gated MLP."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu


class MLP(nn.Module):
    def __init__(self, width: int, inner: int, out: int) -> None:
        super().__init__()
        self.up_proj = nn.Linear(width, inner)
        self.down_proj = nn.Linear(inner, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(silu(self.up_proj(x)))


class Attention(nn.Module):
    """Unmasked: a candidate sees every other, before and after it. Names of the published fused projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """x [M, T, width], bias [heads, T, T]."""
        fused = linear(x, self.in_proj_weight, self.in_proj_bias)
        queries, keys, values = fused.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # [M, heads, T, hd]
        mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, eps: float) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(width, eps=eps)
        self.attn = Attention(width, heads)
        self.mlp_norm = nn.RMSNorm(width, eps=eps)
        self.mlp = MLP(width, inner, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attn(self.attn_norm(x), bias)
        return x + self.mlp(self.mlp_norm(x))
