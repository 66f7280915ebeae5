"""Ragged key/value storage: one static row per stream; a row's length is a number, so rolling back moves a number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Window:
    """Where one forward pass reads and writes: rows `lo..hi`, new tokens at `starts[b] .. starts[b]+width-1`."""

    lo: int
    hi: int
    positions: Tensor  # [B, width] absolute positions of the new tokens
    span: int  # keys that any row of this pass can see: max(starts) + width

    @classmethod
    def at(cls, lo: int, starts: Tensor, width: int) -> Window:
        positions = starts[:, None] + torch.arange(width, device=starts.device)
        return cls(lo, lo + len(starts), positions, int(starts.max()) + width)


class RaggedKV:
    """Keys and values of `layers` layers, each [rows, kv_heads, capacity, head_dim]."""

    def __init__(
        self,
        layers: int,
        rows: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (rows, kv_heads, capacity, head_dim)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.capacity = capacity

    def write(self, layer: int, window: Window, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys/values [B, kv_heads, width, head_dim]; views of all visible [B, kv_heads, span, head_dim]."""
        stored_k, stored_v = self.keys[layer], self.values[layer]
        if window.hi - window.lo == 1:  # one row: a plain slice copy is several times cheaper than a scatter
            first = int(window.positions[0, 0])
            stored_k[window.lo, :, first : window.span] = keys[0]
            stored_v[window.lo, :, first : window.span] = values[0]
        else:
            rows = torch.arange(window.lo, window.hi, device=keys.device)[:, None]
            stored_k[rows, :, window.positions] = keys.transpose(1, 2)
            stored_v[rows, :, window.positions] = values.transpose(1, 2)
        return stored_k[window.lo : window.hi, :, : window.span], stored_v[window.lo : window.hi, :, : window.span]

    def move_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of a row over another (keeps the rows in use contiguous)."""
        for stored in (*self.keys, *self.values):
            stored[target, :, :length] = stored[source, :, :length]
