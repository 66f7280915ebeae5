"""The two block layouts: which block offset predicts which slot. Always explicit, never inferred (methods.md 0)."""

from __future__ import annotations

from enum import StrEnum


class Layout(StrEnum):
    """Inputs are the same, [anchor, mask, …, mask]; a checkpoint served under the other layout accepts about 1 %."""

    FILL_IN = "fill-in"  # the mask at offset i predicts slot i: the token at its own position
    ANCHOR_FIRST = "anchor-first"  # offset i-1 predicts slot i: ordinary next-token reading

    def slots(self, block_size: int) -> int:
        """Draft tokens N of a block of `block_size` inputs."""
        return block_size - 1 if self is Layout.FILL_IN else block_size

    def offsets(self, block_size: int) -> slice:
        """Block offsets that predict slots 1..N, in order."""
        return slice(1, block_size) if self is Layout.FILL_IN else slice(0, block_size)
