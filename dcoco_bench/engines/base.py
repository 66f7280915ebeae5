"""What an engine is: it takes prompts and yields finished requests with their rounds. It never prints or averages."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, Protocol

from dcoco_bench.cells import Sampling

FinishReason = Literal["stop", "length", "error"]

CANDIDATES = 16  # recorded per slot (paper: coverage is reported up to k = 16)


@dataclass(frozen=True)
class Request:
    """One prompt to decode, already rendered through the chat template."""

    id: int
    prompt_ids: list[int]
    max_tokens: int
    sampling: Sampling
    seed: int = 0


@dataclass
class Rounds:
    """Raw counts, one entry per decode round, in order (`measurement.md` section 1).

    `drafted` 0 marks an undrafted round. `accepted` counts before stop handling, `delivered` after it.
    """

    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)


@dataclass
class Finished:
    """A request that ended. Times are seconds on the engine's `time.perf_counter` clock."""

    id: int
    output_ids: list[int]
    finish_reason: FinishReason
    start: float
    first_token: float | None
    end: float
    rounds: Rounds | None = None  # None = the engine cannot know (missing, not zero)
    error: str | None = None
    # Recorded on request only. candidates: [round][slot][k] drafter ids, best first.
    candidates: list[list[list[int]]] | None = None
    chunks: list[tuple[int, float]] | None = None  # streamed: tokens and arrival time of each chunk that had any
    margins: list[float] | None = None  # target's top-1 minus top-2 logit, one per output token


class Engine(Protocol):
    """Opened for one (backbone, method); any number of requests, one at a time or batched."""

    def submit(self, request: Request) -> None:
        """Start a request now. The load never has more in flight than its concurrency."""

    def poll(self) -> list[Finished]:
        """Advance (or wait for) the work in flight; return what has ended since, possibly nothing."""

    def tokens_in_flight(self) -> int:
        """Output tokens delivered so far by requests still in flight (for progress only)."""

    def counters(self) -> dict[str, float]:
        """Cumulative: seconds by phase (`prefill_s`, `draft_s`, `head_s`, `verify_s`, `other_s`), `steps`, …"""

    def effective_config(self) -> dict[str, object]:
        """What really runs: dtype, threads, block size, draft tokens N, layout, checkpoint hash, …"""

    def close(self) -> None: ...


def engine_now(engine: Engine) -> float:
    """The clock of an engine's times: its own `now()` where it has one (a simulated clock), else `perf_counter`."""
    own = getattr(engine, "now", None)
    return float(own()) if own is not None else perf_counter()
