"""One stream's request in flight: what it has delivered, and when it must stop."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from torch import Generator

from dcoco_bench.engines.base import Finished, FinishReason, Request, Rounds


@dataclass
class Stream:
    request: Request
    generator: Generator  # of what the target draws
    drafting: Generator  # of what its drafter draws: whether it drafts at all must not move the target's numbers
    start: float
    first_token: float = 0.0
    length: int = 0  # positions the target has processed; the anchor sits at this position
    output: list[int] = field(default_factory=list)
    rounds: Rounds = field(default_factory=Rounds)
    candidates: list[list[list[int]]] | None = None
    margins: list[float] | None = None
    reason: FinishReason | None = None

    @property
    def anchor(self) -> int:
        return self.output[-1]

    @property
    def remaining(self) -> int:
        return self.request.max_tokens - len(self.output)

    def deliver(self, tokens: list[int], stop_ids: Collection[int]) -> int:
        """Append up to the first stop token or the length limit; returns how many reached the user."""
        for count, token in enumerate(tokens, start=1):
            self.output.append(token)
            if token in stop_ids:
                self.reason = "stop"
                return count
            if self.remaining == 0:
                self.reason = "length"
                return count
        return len(tokens)

    def finished(self, end: float) -> Finished:
        assert self.reason is not None
        return Finished(
            id=self.request.id,
            output_ids=self.output,
            finish_reason=self.reason,
            start=self.start,
            first_token=self.first_token,
            end=end,
            rounds=self.rounds,
            candidates=self.candidates,
            margins=self.margins,
        )
