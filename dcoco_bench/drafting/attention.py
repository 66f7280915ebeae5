"""Grouped-query attention over a ragged cache, without copying keys per query head."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def visible(last_seen: Tensor, span: int, groups: int, dtype: torch.dtype) -> Tensor:
    """Additive mask [B, 1, groups * width, span]: query (b, i) sees key positions 0 .. last_seen[b, i].

    Queries are laid out group-major, matching `attend`.
    """
    hidden = torch.arange(span, device=last_seen.device) > last_seen[:, :, None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=last_seen.device).masked_fill_(hidden, float("-inf"))
    return mask.repeat(1, groups, 1)[:, None]


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    """query [B, heads, width, hd] against key/value [B, kv_heads, span, hd] -> [B, width, heads, hd].

    The query heads of one kv head are stacked as extra queries, so keys and values are read once.
    """
    batch, heads, width, dim = query.shape
    kv_heads = key.shape[1]
    stacked = query.reshape(batch, kv_heads, heads // kv_heads * width, dim)
    out = scaled_dot_product_attention(stacked, key, value, attn_mask=mask, scale=scale)
    return out.reshape(batch, heads, width, dim).transpose(1, 2)
