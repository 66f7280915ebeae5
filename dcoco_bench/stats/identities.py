"""Identities that every log must satisfy (`measurement.md` section 4). A broken one fails the cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dcoco_bench.log import RequestRecord
from dcoco_bench.stats.acceptance import Acceptance
from dcoco_bench.stats.requests import RequestTable, ragged, request_table, succeeded

GENERATED = ("vllm:generation_tokens_total", "generation_tokens")  # counter deltas over the measured interval


def broken_identities(
    requests: Sequence[RequestRecord],
    summary: Acceptance | None = None,
    draft_tokens: int | None = None,
    counters: dict[str, float] | None = None,
) -> list[str]:
    """Every identity that the cell breaks, one sentence each; empty = valid.

    `draft_tokens` is K where it is known; `counters` are the engine's deltas over the cell.
    """
    uneven = list(_uneven(requests))
    if uneven:
        return uneven  # the rest would compare the wrong rounds
    table = request_table(requests)
    found = [*_rounds(table, draft_tokens), *_lengths(requests, table), *_times(table)]
    if summary is not None:
        found += broken_summary(summary, draft_tokens)
    if counters is not None and not table.failed:
        found += _totals(table, counters)
    return found


def broken_summary(a: Acceptance, draft_tokens: int | None = None) -> list[str]:
    """Identities 1 to 5 and 7 on the numbers themselves, also for numbers that came from an engine's counters."""
    if not a.rounds or a.tau_raw is None:
        return []
    found = []
    total = math.fsum(a.marginal)
    if not math.isclose(a.tau_raw - 1, total, rel_tol=1e-9, abs_tol=1e-9):
        found.append(f"raw τ - 1 is {a.tau_raw - 1:.6f} but the marginal rates sum to {total:.6f}")
    by_position = round(total * a.rounds)
    if by_position != a.accepted:
        found.append(f"accepted by position sum to {by_position} but {a.accepted} were accepted")
    for i, (left, right) in enumerate(zip(a.marginal, a.marginal[1:], strict=False)):
        if right > left + 1e-12:
            found.append(f"marginal acceptance rises from {left:.6f} at position {i} to {right:.6f} at {i + 1}")
    if sum(a.histogram) != a.rounds:
        found.append(f"the histogram sums to {sum(a.histogram)} but there were {a.rounds} rounds")
    weighted = sum(j * h for j, h in enumerate(a.histogram))
    if weighted != a.accepted:
        found.append(f"the histogram holds {weighted} accepted tokens but {a.accepted} were accepted")
    if a.accepted > a.drafted:
        found.append(f"{a.accepted} tokens accepted but only {a.drafted} drafted")
    if draft_tokens is not None and a.drafted > a.rounds * draft_tokens:
        found.append(
            f"{a.drafted} tokens drafted but {a.rounds} rounds of {draft_tokens} allow {a.rounds * draft_tokens}"
        )
    if a.tau is not None and a.tau > a.tau_raw + 1e-12:
        found.append(f"delivered τ {a.tau:.6f} is above raw τ {a.tau_raw:.6f}")
    return found


def _uneven(requests: Sequence[RequestRecord]) -> Iterator[str]:
    for r in succeeded(requests):
        if r.rounds is not None and ragged(r):
            d, a, out = len(r.rounds.drafted), len(r.rounds.accepted), len(r.rounds.delivered)
            yield f"prompt {r.prompt_id} turn {r.turn}: {d} drafted, {a} accepted, {out} delivered rounds"


def _rounds(table: RequestTable, draft_tokens: int | None) -> Iterator[str]:
    """Per round: 0 <= accepted <= drafted <= K and 1 <= delivered <= accepted + 1."""
    d, a, out = table.rounds.drafted, table.rounds.accepted, table.rounds.delivered
    cases = [
        ((a < 0) | (d < 0), "a negative count: accepted {a}, drafted {d}"),
        (a > d, "accepted {a} of {d} drafted"),
        (out > a + 1, "delivered {out} tokens after accepting {a}"),
        (out < 1, "delivered {out} tokens after accepting {a}"),
    ]
    if draft_tokens is not None:
        cases.append((d > draft_tokens, f"drafted {{d}} tokens, more than the method's {draft_tokens}"))
    for broken, message in cases:
        if broken.any():
            at = int(np.argmax(broken))
            text = message.format(a=int(a[at]), d=int(d[at]), out=int(out[at]))
            yield f"{int(broken.sum())} rounds break a bound, the first: {text}"


def _lengths(requests: Sequence[RequestRecord], table: RequestTable) -> Iterator[str]:
    """n = 1 + the delivered tokens of all rounds, and only a request's last round may be cut."""
    if not len(table):
        return
    given = np.bincount(table.rounds.owner, weights=table.rounds.delivered, minlength=len(table)).astype(np.int64)
    wrong = table.known & (table.tokens != 1 + given)
    if wrong.any():
        at = int(np.argmax(wrong))
        where = succeeded(requests)[at]
        yield (
            f"{int(wrong.sum())} requests have another length than their rounds, the first: prompt {where.prompt_id} "
            f"turn {where.turn} has {int(table.tokens[at])} tokens but 1 + {int(given[at])} were delivered"
        )
    owner = table.rounds.owner
    last = np.append(owner[1:] != owner[:-1], True) if len(owner) else np.zeros(0, np.bool_)
    cut = ~last & (table.rounds.delivered < table.rounds.accepted + 1)
    if cut.any():
        at = int(np.argmax(cut))
        a, out = int(table.rounds.accepted[at]), int(table.rounds.delivered[at])
        yield f"{int(cut.sum())} rounds were cut before the end of their request, the first: {out} of {a + 1} delivered"


def _times(table: RequestTable) -> Iterator[str]:
    """Send <= first token <= last token. Unknown times (NaN) are missing, not wrong."""
    for bad, what in (
        (table.e2e < 0, "end before their start"),
        (table.ttft < 0, "have a first token before the start"),
    ):
        if bad.any():
            values = table.e2e if what.startswith("end") else table.ttft
            yield f"{int(bad.sum())} requests {what}, the first by {-float(values[int(np.argmax(bad))]):.6f} s"
    late = table.ttft > table.e2e + 1e-9
    if late.any():
        at = int(np.argmax(late))
        yield (
            f"{int(late.sum())} requests have their first token after their end, the first at "
            f"{float(table.ttft[at]):.6f} s of {float(table.e2e[at]):.6f} s"
        )


def _totals(table: RequestTable, counters: dict[str, float]) -> Iterator[str]:
    """Tokens seen by the client = the engine's own count, when nothing failed."""
    for name in GENERATED:
        if name in counters and round(counters[name]) != int(table.tokens.sum()):
            yield f"the client saw {int(table.tokens.sum())} tokens but {name} rose by {counters[name]:g}"
