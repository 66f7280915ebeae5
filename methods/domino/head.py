"""Domino's head: a GRU reads the block's prefix, a bottleneck turns it into a correction of the next slot's logits.

In slot terms both layouts are one equation (methods.md 5): slot i > P, after the anchor and slots 1..i-1, gets
l_i = U_i + W_b SiLU(W_a [h_i; g_i]), g_i = GRU(E[anchor], E[slot 1], ..., E[slot i-1]).
Tensor names are the published ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from dcoco_bench.errors import UserError


@dataclass(frozen=True)
class DominoConfig:
    """`domino/config.json`."""

    hidden_size: int  # d
    vocab_size: int  # the draft's, V'
    gru_hidden_dim: int  # G
    emb_dim: int  # R, the bottleneck
    pure_draft_prefix_len: int = 1  # P, first slots that stay the drafter's

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> DominoConfig:
        """Raises UserError naming a field that is missing or of the wrong kind."""
        sizes = {name: raw.get(name) for name in cls.__dataclass_fields__}
        if wrong := [name for name, value in sizes.items() if type(value) is not int or value < 1]:
            raise UserError(f"domino/config.json: {', '.join(wrong)} missing or not usable; fetch the checkpoint again")
        return cls(**sizes)  # type: ignore[arg-type]


class DominoHead(nn.Module):
    def __init__(self, config: DominoConfig, generator: Generator | None = None) -> None:
        super().__init__()
        self.config = config
        d, g, r = config.hidden_size, config.gru_hidden_dim, config.emb_dim
        self.prefix_gru = nn.GRU(d, g, bias=False, batch_first=True)
        self.embed_proj = nn.Sequential(
            nn.Linear(d + g, r, bias=False), nn.SiLU(), nn.Linear(r, config.vocab_size, bias=False)
        )
        if generator is not None:
            for weight in self.prefix_gru.parameters():  # PyTorch's own start for a GRU: U(-1/sqrt G, 1/sqrt G)
                nn.init.uniform_(weight, -1 / math.sqrt(g), 1 / math.sqrt(g), generator=generator)
            for weight in self.embed_proj.parameters():
                nn.init.normal_(weight, std=0.02, generator=generator)

    def prefix_states(self, embedded: Tensor) -> Tensor:
        """E of (anchor, slot 1, ..., slot N-1), [M, N, d] -> g_1..g_N, [M, N, G]."""
        states: Tensor = self.prefix_gru(embedded)[0]
        return states

    def step(self, embedded: Tensor, state: Tensor | None) -> Tensor:
        """One more token: E [B, d] and the state so far [B, G] (None = nothing read) -> [B, G]."""
        before = None if state is None else state[None]
        after: Tensor = self.prefix_gru(embedded[:, None], before)[1][0]
        return after

    def bottleneck(self, hidden: Tensor, states: Tensor) -> Tensor:
        """h [..., d], g [..., G] -> SiLU(W_a [h; g]), [..., R]."""
        narrow: Tensor = self.embed_proj[1](self.embed_proj[0](torch.cat([hidden, states], dim=-1)))
        return narrow

    def correction(self, hidden: Tensor, states: Tensor) -> Tensor:
        """h [..., d], g [..., G] -> what is added to the unary logits, [..., V']."""
        added: Tensor = self.embed_proj[2](self.bottleneck(hidden, states))
        return added
