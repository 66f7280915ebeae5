"""The drafter's training pass: many blocks of one sequence at once, each seeing only what it will see when serving."""

from __future__ import annotations

import torch
from torch import Tensor

from dcoco_bench.drafting.backbone import Attention, BlockBackbone, Layer


def block_hidden(backbone: BlockBackbone, features: Tensor, anchors: Tensor, embeddings: Tensor) -> Tensor:
    """Hidden states of every block, [B, n, Q, d].

    features [B, S, taps*d] of B sequences; anchors [B, n] their blocks' anchor positions; embeddings [B, n, Q, d].
    A block at anchor t sees context s < t and its own Q positions (methods.md 1.3).
    """
    span, width = features.shape[1], embeddings.shape[2]
    context = backbone.context(features)
    # The first position is an attention sink with activations up to 1000x the others'; its gradient would swamp theirs.
    context = torch.cat([context[:, :1].detach(), context[:, 1:]], dim=1)
    at_context = backbone.rotation(torch.arange(span, device=features.device))
    at_block = backbone.rotation(anchors[..., None] + torch.arange(width, device=features.device))
    hidden_from = torch.arange(span, device=features.device) >= anchors[..., None]  # [B, n, S]
    mask = torch.zeros(hidden_from.shape, dtype=embeddings.dtype, device=features.device)
    mask = mask.masked_fill_(hidden_from, float("-inf"))[:, None, :, None]  # [B, 1, n, 1, S]

    hidden = embeddings
    for layer in backbone.layers:
        assert isinstance(layer, Layer)
        normed = layer.input_layernorm(hidden)
        queries = layer.self_attn.queries(normed, at_block)
        own = layer.self_attn.keys_values(normed, at_block)
        seen = layer.self_attn.keys_values(context, at_context)
        hidden = layer.finish(hidden, _two_source_attention(layer.self_attn, queries, seen, own, mask))
    return backbone.norm(hidden)


def _two_source_attention(
    attention: Attention, queries: Tensor, context: tuple[Tensor, Tensor], block: tuple[Tensor, Tensor], mask: Tensor
) -> Tensor:
    """queries [B, n, heads, Q, hd]; context 2 x [B, kv, S, hd]; block 2 x [B, n, kv, Q, hd] -> [B, n, Q, heads*hd].

    Context keys are shared by a sequence's blocks, so they are multiplied once, not once a block.
    """
    batch, blocks, heads, width, dim = queries.shape
    kv, groups = attention.kv_heads, heads // attention.kv_heads
    context_keys, context_values = context
    block_keys, block_values = (part.transpose(1, 2) for part in block)  # [B, kv, n, Q, hd]
    stacked = queries.unflatten(2, (kv, groups)).transpose(1, 2) * dim**-0.5  # [B, kv, n, groups, Q, hd]
    per_block = stacked.reshape(batch, kv, blocks, groups * width, dim)
    flat = per_block.reshape(batch, kv, blocks * groups * width, dim)
    to_context = (flat @ context_keys.transpose(-1, -2)).unflatten(2, (blocks, groups * width)) + mask
    to_block = per_block @ block_keys.transpose(-1, -2)
    weights = torch.cat([to_context, to_block], dim=-1).softmax(-1)
    span = context_keys.shape[-2]
    out = (weights[..., :span].flatten(2, 3) @ context_values).view_as(per_block) + weights[..., span:] @ block_values
    out = out.reshape(batch, kv, blocks, groups, width, dim).permute(0, 2, 4, 1, 3, 5)  # [B, n, Q, kv, groups, hd]
    return out.reshape(batch, blocks, width, heads * dim)
