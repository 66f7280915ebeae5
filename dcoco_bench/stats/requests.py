"""The log as arrays: one entry per successful request, and one per decode round. All statistics start here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from dcoco_bench.log import RequestRecord

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RoundTable:
    """All rounds of all requests, in order. `owner` is the request's place in its RequestTable."""

    owner: Ints
    drafted: Ints
    accepted: Ints
    delivered: Ints

    @cached_property
    def drafting(self) -> Bools:
        """True where the round verified at least one draft token; the others are undrafted decode steps."""
        return self.drafted > 0


@dataclass(frozen=True)
class RequestTable:
    """Successful requests. Times in seconds, NaN where unknown; `known` is False where the engine gave no rounds."""

    prompt: Ints  # place of the prompt in the cell's list: the cluster of every interval
    turn: Ints
    tokens: Ints  # n, prefill token included
    e2e: Floats
    ttft: Floats
    end: Floats
    segment: Ints
    known: Bools
    rounds: RoundTable
    failed: int  # requests that ended in an error: in no statistic, always shown

    def __len__(self) -> int:
        return len(self.prompt)

    def per_request(self, values: npt.NDArray[np.generic]) -> Floats:
        """Sum a per-round array over the drafting rounds of each request."""
        drafting = self.rounds.drafting
        return np.bincount(
            self.rounds.owner[drafting], weights=values[drafting].astype(np.float64), minlength=len(self)
        ).astype(np.float64)

    def take(self, keep: Bools) -> RequestTable:
        """The requests where `keep` is True, their rounds renumbered."""
        place = np.cumsum(keep) - 1
        mine = keep[self.rounds.owner]
        rounds = RoundTable(
            place[self.rounds.owner[mine]],
            self.rounds.drafted[mine],
            self.rounds.accepted[mine],
            self.rounds.delivered[mine],
        )
        return RequestTable(
            prompt=self.prompt[keep],
            turn=self.turn[keep],
            tokens=self.tokens[keep],
            e2e=self.e2e[keep],
            ttft=self.ttft[keep],
            end=self.end[keep],
            segment=self.segment[keep],
            known=self.known[keep],
            rounds=rounds,
            failed=self.failed,
        )


def succeeded(requests: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [r for r in requests if r.finish_reason != "error" and r.error is None]


def ragged(request: RequestRecord) -> bool:
    """True where the three lists of a request's rounds differ in length: its rounds cannot be used."""
    r = request.rounds
    return r is not None and not len(r.drafted) == len(r.accepted) == len(r.delivered)


def request_table(requests: Sequence[RequestRecord]) -> RequestTable:
    """Turn log records into arrays; failed requests are dropped and counted, ragged rounds count as unknown."""
    good = succeeded(requests)

    def ints(values: Sequence[int]) -> Ints:
        return np.fromiter(values, np.int64, len(values))

    def floats(values: Sequence[float]) -> Floats:
        return np.fromiter(values, np.float64, len(values))

    start, end = floats([r.start for r in good]), floats([r.end for r in good])
    first = floats([np.nan if r.first_token is None else r.first_token for r in good])
    rounds = [r.rounds if r.rounds is not None and not ragged(r) else None for r in good]
    lengths = ints([0 if r is None else len(r.drafted) for r in rounds])
    whole = [r for r in rounds if r is not None]

    def flat(lists: list[list[int]]) -> Ints:
        return np.fromiter(chain.from_iterable(lists), np.int64)

    return RequestTable(
        prompt=ints([r.index for r in good]),
        turn=ints([r.turn for r in good]),
        tokens=ints([r.tokens for r in good]),
        e2e=end - start,
        ttft=first - start,
        end=end,
        segment=ints([r.segment for r in good]),
        known=np.fromiter((r is not None for r in rounds), np.bool_, len(good)),
        rounds=RoundTable(
            owner=np.repeat(np.arange(len(good), dtype=np.int64), lengths),
            drafted=flat([r.drafted for r in whole]),
            accepted=flat([r.accepted for r in whole]),
            delivered=flat([r.delivered for r in whole]),
        ),
        failed=len(requests) - len(good),
    )
