"""The block drafter's network: a Qwen3-style decoder that attends to target features and to its block (methods.md 1).

Module names give exactly the published checkpoint's tensor names.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from dcoco_bench.drafting.attention import attend
from dcoco_bench.drafting.config import DraftConfig
from dcoco_bench.drafting.kv import RaggedKV, Window

Rotation = tuple[Tensor, Tensor]  # cos, sin: [..., head_dim], broadcast over heads


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Neox-style half rotation of x [..., head_dim]."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        d, hd, bias = config.hidden_size, config.head_dim, config.attention_bias
        self.heads, self.kv_heads, self.head_dim = config.num_attention_heads, config.num_key_value_heads, hd
        self.q_proj = nn.Linear(d, self.heads * hd, bias=bias)
        self.k_proj = nn.Linear(d, self.kv_heads * hd, bias=bias)
        self.v_proj = nn.Linear(d, self.kv_heads * hd, bias=bias)
        self.o_proj = nn.Linear(self.heads * hd, d, bias=bias)
        self.q_norm = nn.RMSNorm(hd, eps=config.rms_norm_eps)
        self.k_norm = nn.RMSNorm(hd, eps=config.rms_norm_eps)

    def queries(self, hidden: Tensor, rotation: Rotation) -> Tensor:
        """hidden [..., S, d] -> [..., heads, S, head_dim]."""
        split = self.q_proj(hidden).unflatten(-1, (self.heads, self.head_dim)).transpose(-3, -2)
        return rotate(self.q_norm(split), rotation)

    def keys_values(self, source: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """source [..., S, d] (context vectors, or normed block states) -> 2 x [..., kv_heads, S, head_dim]."""
        keys = self.k_proj(source).unflatten(-1, (self.kv_heads, self.head_dim)).transpose(-3, -2)
        values = self.v_proj(source).unflatten(-1, (self.kv_heads, self.head_dim)).transpose(-3, -2)
        return rotate(self.k_norm(keys), rotation), values


class MLP(nn.Module):
    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        d, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(d, inner, bias=False)
        self.up_proj = nn.Linear(d, inner, bias=False)
        self.down_proj = nn.Linear(inner, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = MLP(config)

    def finish(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Output projection, residual and MLP after attention; attended [..., heads * head_dim]."""
        hidden = hidden + self.self_attn.o_proj(attended)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class BlockBackbone(nn.Module):
    """One pass turns [anchor, mask, …] embeddings and the target's features into Q hidden states."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(config.target_layer_ids) * config.hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        frequencies = config.rope_theta ** (-torch.arange(0, config.head_dim, 2).float() / config.head_dim)
        self.register_buffer("_frequencies", frequencies, persistent=False)
        self._frequencies: Tensor

    def initialise(self, generator: torch.Generator, head: Tensor) -> None:
        """Hugging Face post-init (linears N(0, 0.02), norms 1), but the final norm starts at 2 / |row of the LM head|.

        With norms at 1 a tied head [V, d] of long rows gives logits of std 15 and a first loss of 60; this gives std 2.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02, generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.constant_(self.norm.weight, 2.0 / float(head.float().norm(dim=-1).mean()))

    def rotation(self, positions: Tensor) -> Rotation:
        """cos and sin [..., 1, S, head_dim] for positions [..., S]; the unit dimension broadcasts over heads."""
        angles = positions.unsqueeze(-2).unsqueeze(-1).float() * self._frequencies
        angles = torch.cat([angles, angles], dim=-1)
        dtype = self.fc.weight.dtype
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def context(self, features: Tensor) -> Tensor:
        """features [..., taps*d] -> context vectors [..., d] (methods.md 1.2, step 2)."""
        return self.hidden_norm(self.fc(features))

    def write_context(self, cache: RaggedKV, window: Window, features: Tensor) -> None:
        """Keys and values of features [B, S, taps*d] into every layer's cache."""
        context, rotation = self.context(features), self.rotation(window.positions)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            cache.write(number, window, *layer.self_attn.keys_values(context, rotation))

    def forward(self, embeddings: Tensor, cache: RaggedKV, window: Window, mask: Tensor) -> Tensor:
        """Serving: block embeddings [B, Q, d] at window.positions -> final-norm hidden states [B, Q, d].

        The block's own keys land behind the context and are overwritten by the next round's context.
        """
        hidden, rotation = embeddings, self.rotation(window.positions)
        scale = self.config.head_dim**-0.5
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            normed = layer.input_layernorm(hidden)
            queries = layer.self_attn.queries(normed, rotation)
            keys, values = cache.write(number, window, *layer.self_attn.keys_values(normed, rotation))
            hidden = layer.finish(hidden, attend(queries, keys, values, mask, scale).flatten(-2))
        return self.norm(hidden)
