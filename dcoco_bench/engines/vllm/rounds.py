"""A request's rounds, from what the server reports or from how its stream grew (measurement.md 7.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcoco_bench.engines.base import Rounds


def from_report(report: Mapping[str, Any] | None, tokens: int) -> Rounds | None:
    """vLLM 0.32's `metrics.speculative_decoding` with its per-step lists, and the tokens delivered in all.

    The first token comes from the prefill. Counts are taken before stop handling: only the last round can deliver
    fewer than accepted + 1. None where the lists are missing or do not cover the output.
    """
    if not report or report.get("per_step_accepted") is None or report.get("per_step_drafted") is None:
        return None
    accepted, drafted = [int(a) for a in report["per_step_accepted"]], [int(d) for d in report["per_step_drafted"]]
    if len(accepted) != len(drafted):
        return None
    return _delivered(drafted, accepted, tokens - 1)


def from_stream(growth: Sequence[int], draft_tokens: int) -> Rounds | None:
    """Tokens per chunk → rounds; the first chunk with tokens is the prefill's.

    Exact while the client keeps up: outputs that wait are merged, so a chunk above N + 1 shows that it did not
    (None). The last round's accepted count is a lower bound: what a stop cut off was never sent.
    """
    steps = [n for n in growth if n > 0][1:]
    if any(n > draft_tokens + 1 for n in steps) or (growth and next((n for n in growth if n > 0), 1) != 1):
        return None
    return Rounds([draft_tokens] * len(steps), [n - 1 for n in steps], list(steps))


def undrafted(tokens: int) -> Rounds:
    """Plain decoding: a token a step after the prefill's."""
    steps = max(tokens - 1, 0)
    return Rounds([0] * steps, [0] * steps, [1] * steps)


def _delivered(drafted: list[int], accepted: list[int], left: int) -> Rounds | None:
    delivered = []
    for count in accepted:
        delivered.append(min(count + 1, left))
        left -= delivered[-1]
    if left > 0:
        return None
    while delivered and delivered[-1] == 0:  # steps that ran after the last token was already out
        delivered.pop()
    count = len(delivered)
    return Rounds(drafted[:count], accepted[:count], delivered)
