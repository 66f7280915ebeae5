"""A drafter that drafts nothing: it keeps the features the target shows it, so teacher data costs one decode."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.drafter import Drafter, Lap, Proposal


class FeatureRecorder(Drafter):
    """Collects [positions, taps*d] per stream in bfloat16; `take` hands over those of streams that ended."""

    slots = 0

    def __init__(self, taps: tuple[int, ...]) -> None:
        self.taps = taps
        self._rows: list[list[Tensor]] = []
        self._ended: list[Tensor] = []

    def allocate(self, rows: int, capacity: int) -> None:
        self._rows = [[] for _ in range(rows)]

    def observe(self, lo: int, features: Tensor, starts: Tensor) -> None:
        for offset, part in enumerate(features.to(torch.bfloat16).unbind(0)):
            self._rows[lo + offset].append(part)

    def propose(
        self, lo: int, anchors: Tensor, positions: Tensor, sampling: Sampling, generators: list[Generator], lap: Lap
    ) -> Proposal:
        raise AssertionError("a recorder has no slots, so the engine never asks it to propose")

    def move_row(self, source: int, target: int, length: int) -> None:
        self._rows[target] = self._rows[source]
        self._rows[source] = []

    def forget(self, row: int) -> None:
        self._ended.append(torch.cat(self._rows[row]))
        self._rows[row] = []

    def take(self) -> list[Tensor]:
        """Features of the streams that ended since the last call, in the order `Engine.poll` returned them."""
        ended, self._ended = self._ended, []
        return ended
