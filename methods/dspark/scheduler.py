"""The hardware-aware prefix scheduler: how many draft tokens of each request are worth verifying (methods.md 4.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

StepsPerSecond = Callable[[int], float]  # profiled verification speed at b tokens in the batch


def admit(confidences: Sequence[Sequence[float]], speed: StepsPerSecond, *, stop_early: bool = True) -> list[int]:
    """Draft tokens to verify for each request, maximising expected tokens x steps per second.

    `confidences[r][j]` is P(slot j+1 accepted | slots before it accepted). Slots are visited by falling survival
    a = product of confidences, which keeps every request's prefix in order. The first that lowers the throughput ends
    the search: a slot's survival depends on the tokens before it, so to look further would let a drawn token
    influence its own admission and bend the output at T>0. `stop_early=False` is that wrong search, for its test.
    """
    requests = len(confidences)
    survivals = [list(accumulate(row, mul)) for row in confidences]
    order = sorted(
        ((a, r, j) for r, row in enumerate(survivals) for j, a in enumerate(row)),
        key=lambda entry: (-entry[0], entry[2], entry[1]),
    )
    lengths, tokens, expected = [0] * requests, requests, float(requests)
    best, admitted = requests * speed(requests), [0] * requests
    for survival, request, slot in order:
        tokens, expected = tokens + 1, expected + survival
        lengths[request] = slot + 1
        throughput = expected * speed(tokens)
        if throughput > best:
            best, admitted = throughput, list(lengths)
        elif stop_early:
            break
    return admitted
