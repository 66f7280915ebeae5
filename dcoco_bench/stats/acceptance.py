"""Acceptance: tau in its four definitions, rates by position, and the two warnings that go with them.

Source: `measurement.md` sections 2.1 and 3. tau counts the target's own (bonus) token; vanilla is 1 by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dcoco_bench.log import RequestRecord
from dcoco_bench.stats.requests import Floats, RequestTable, request_table

TAU = "round+bonus/delivered"
TAU_RAW = "round+bonus/raw"
TAU_REQUEST = "request+bonus/delivered"
TAU_REQUEST_RAW = "request+bonus/raw"
ACCEPTANCE_RATE = "accepted/drafted"

TRIM_TOLERANCE = 0.01  # raw above delivered by more than this is worth a warning (C01)

MISFIT = 0.05  # share of accepted first tokens that no drafter of this target falls below
ENOUGH_ROUNDS = 30  # before saying so


@dataclass(frozen=True)
class Acceptance:
    """Counts and rates of a scope (request, cell, run). None = missing or undefined, never 0."""

    requests: int  # successful requests whose rounds are known
    unknown: int  # successful requests whose rounds the engine could not give
    roundless: int  # known, but with no drafting round: left out of the per-request means
    rounds: int  # R, drafting rounds only
    undrafted: int
    drafted: int
    accepted: int
    delivered: int  # of drafting rounds
    tau: float | None
    tau_raw: float | None
    tau_request: float | None
    tau_request_raw: float | None
    acceptance_rate: float | None
    undrafted_share: float | None
    histogram: tuple[int, ...]  # h_j, j = 0..K
    marginal: tuple[float, ...]  # by zero-based position, K entries
    conditional: tuple[float | None, ...]  # None where no round reached the position
    by_construction: bool = False  # vanilla: tau is 1 and not counted

    @property
    def inactive(self) -> str | None:
        """Why the drafter counts as inactive, or None. Such a cell is shown but never averaged in (C02)."""
        if self.by_construction or not self.requests:
            return None
        if not self.rounds:
            return f"no draft tokens in {self.undrafted} decode steps" if self.undrafted else None
        return f"0 of {self.drafted} draft tokens accepted" if not self.accepted else None

    @property
    def misfit(self) -> str | None:
        """Why the draft looks like one of another layout or another target, or None (methods.md trap 1: a checkpoint
        read in the wrong layout raises no error, it is accepted about 1 % of the time)."""
        if self.by_construction or self.rounds < ENOUGH_ROUNDS or self.marginal[0] >= MISFIT:
            return None
        return (
            f"only {self.marginal[0]:.1%} of first draft tokens accepted: was the draft trained for this target, "
            "and in this block layout (fill-in or anchor-first)?"
        )

    @property
    def trim_gap(self) -> float | None:
        """(raw - delivered) / delivered: the part of raw tau that no user received."""
        if self.tau is None or self.tau_raw is None or not self.tau:
            return None
        return self.tau_raw / self.tau - 1

    @property
    def trim_warning(self) -> str | None:
        gap = self.trim_gap
        if gap is None or gap <= TRIM_TOLERANCE:
            return None
        return f"raw τ {self.tau_raw:.3f}, {gap:.1%} above delivered {self.tau:.3f}"


def acceptance(requests: Sequence[RequestRecord] | RequestTable) -> Acceptance:
    """Acceptance of the successful requests. Takes records, or the table made from them."""
    table = requests if isinstance(requests, RequestTable) else request_table(requests)
    rounds = table.rounds
    on = rounds.drafting
    drafted, accepted, delivered = rounds.drafted[on], rounds.accepted[on], rounds.delivered[on]
    total = int(on.sum())
    undrafted = int(len(on) - total)
    histogram, marginal, conditional = _by_position(drafted, accepted)

    own_rounds = table.per_request(np.ones_like(rounds.drafted))
    with_rounds = own_rounds > 0
    own_raw = (own_rounds + table.per_request(rounds.accepted))[with_rounds] / own_rounds[with_rounds]
    own = table.per_request(rounds.delivered)[with_rounds] / own_rounds[with_rounds]
    return Acceptance(
        requests=int(table.known.sum()),
        unknown=int((~table.known).sum()),
        roundless=int((table.known & ~with_rounds).sum()),
        rounds=total,
        undrafted=undrafted,
        drafted=int(drafted.sum()),
        accepted=int(accepted.sum()),
        delivered=int(delivered.sum()),
        tau=_ratio(int(delivered.sum()), total),
        tau_raw=_ratio(int(accepted.sum()) + total, total),
        tau_request=float(own.mean()) if len(own) else None,
        tau_request_raw=float(own_raw.mean()) if len(own) else None,
        acceptance_rate=_ratio(int(accepted.sum()), int(drafted.sum())),
        undrafted_share=_ratio(undrafted, total + undrafted),
        histogram=histogram,
        marginal=marginal,
        conditional=conditional,
    )


def vanilla_acceptance(requests: Sequence[RequestRecord] | RequestTable) -> Acceptance:
    """Plain decoding: tau is 1 by construction and nothing is drafted, so every rate is missing, not 0."""
    table = requests if isinstance(requests, RequestTable) else request_table(requests)
    return Acceptance(
        requests=len(table),
        unknown=0,
        roundless=len(table),
        rounds=0,
        undrafted=int(np.maximum(table.tokens - 1, 0).sum()),
        drafted=0,
        accepted=0,
        delivered=0,
        tau=1.0,
        tau_raw=1.0,
        tau_request=1.0,
        tau_request_raw=1.0,
        acceptance_rate=None,
        undrafted_share=None,
        histogram=(),
        marginal=(),
        conditional=(),
        by_construction=True,
    )


def tau_from_totals(tokens: int, requests: int, rounds: int, undrafted_tokens: int = 0) -> float | None:
    """Delivered tau where only totals are known: (sum of n - requests - tokens of undrafted rounds) / R."""
    return _ratio(tokens - requests - undrafted_tokens, rounds)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _by_position(
    drafted: np.ndarray[tuple[int], np.dtype[np.int64]], accepted: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[tuple[int, ...], tuple[float, ...], tuple[float | None, ...]]:
    """Histogram, marginal and conditional rates, from the joint counts of (accepted, drafted)."""
    if not len(drafted) or accepted.min() < 0:  # a negative count is a broken identity, reported there
        return (), (), ()
    size = int(max(drafted.max(), accepted.max())) + 1  # K + 1
    joint = np.bincount(accepted * size + drafted, minlength=size * size).reshape(size, size)
    histogram = joint.sum(axis=1)
    passed: Floats = histogram[::-1].cumsum()[::-1][1:].astype(np.float64)  # [i] = rounds with A > i
    # [i] = rounds with A >= i and D > i: position i was offered and every earlier draft was accepted
    reached = joint[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    at = np.arange(size - 1)
    tried = reached[at, at + 1]
    return (
        tuple(int(h) for h in histogram),
        tuple(float(p) for p in passed / len(drafted)),
        tuple(float(p / t) if t else None for p, t in zip(passed, tried, strict=True)),
    )
