"""Choosing N prompts: the same on every machine, spread over the categories, and part of the choice of any larger N."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice

from dcoco_bench.prompts.sets import Prompt


def sample(prompts: Sequence[Prompt], count: int | None, seed: int) -> tuple[Prompt, ...]:
    """`count` prompts in round-robin order over categories; all of them, in file order, where there are no more."""
    if count is None or count >= len(prompts):
        return tuple(prompts)
    return tuple(islice(_round_robin(prompts, seed), count))


def _round_robin(prompts: Sequence[Prompt], seed: int) -> Iterator[Prompt]:
    # Categories in order of first appearance in the file; inside one, the order of a permutation of the whole file.
    lanes: dict[str, list[Prompt]] = {prompt.category: [] for prompt in prompts}
    shuffled = list(prompts)
    random.Random(seed).shuffle(shuffled)
    for prompt in shuffled:
        lanes[prompt.category].append(prompt)
    waiting = [iter(lane) for lane in lanes.values()]
    while waiting:
        still = []
        for lane in waiting:
            for prompt in islice(lane, 1):
                yield prompt
                still.append(lane)
        waiting = still
