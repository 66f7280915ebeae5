"""What the engine asks of a drafter. Rows are streams; row numbers are contiguous from `lo`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Generator, Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.errors import UserError


class Proposal(NamedTuple):
    tokens: Tensor  # [B, N] target-vocabulary ids
    probs: Tensor | None = None  # [B, N, V] the law the tokens were drawn from; None = deterministic (point mass)
    candidates: Tensor | None = None  # [B, N, K] the drafter's best ids per slot, best first, when asked for
    lengths: Tensor | None = None  # [B] draft tokens to verify, where a method holds some back; None = all N


Lap = Callable[[str], None]  # credits the time since the last lap to a phase: "draft" or "head"


class Drafter(ABC):
    """Proposes `slots` tokens a round from the target's features of all it has processed, plus the anchor."""

    slots: int  # N, draft tokens per round
    sampled: bool = False  # draws its drafts above temperature 0, and so states their law
    taps: tuple[int, ...]  # target layers whose outputs it reads

    @abstractmethod
    def allocate(self, rows: int, capacity: int) -> None:
        """Make room for `rows` streams of up to `capacity` positions; drops what was there."""

    @abstractmethod
    def observe(self, lo: int, features: Tensor, starts: Tensor) -> None:
        """Features [B, S, taps*d] of positions starts[b]..starts[b]+S-1. Later calls overwrite the same positions."""

    @abstractmethod
    def propose(
        self, lo: int, anchors: Tensor, positions: Tensor, sampling: Sampling, generators: list[Generator], lap: Lap
    ) -> Proposal:
        """Draft after anchors [B] at absolute positions [B]."""

    @abstractmethod
    def move_row(self, source: int, target: int, length: int) -> None:
        """Row `source` continues as row `target`."""

    def forget(self, row: int) -> None:  # noqa: B027  (optional)
        """The stream in this row has ended."""

    def record_candidates(self, k: int) -> None:
        """Ask for the top-k ids per slot in every proposal. Raises UserError where a drafter ranks no candidates."""
        raise UserError(f"--record-candidates: {type(self).__name__} ranks no candidates; leave it out")

    def effective_config(self) -> dict[str, Any]:
        return {"slots": self.slots, "taps": list(self.taps)}
