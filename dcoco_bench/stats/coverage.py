"""Top-k coverage of the drafter's candidates along the tokens that were committed (`measurement.md` section 2.4).

A round is anchored at the last token delivered before it: output token 0, from the prefill, for the first round. Slot i
(1-based here, as in the paper) stands for the i-th token after the anchor. All N slots count, not only those that the
round reached; slots past the end of the output are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from dcoco_bench.errors import UserError
from dcoco_bench.log import RequestRecord
from dcoco_bench.stats.intervals import Draws, clusters, ratio_of_sums
from dcoco_bench.stats.requests import Bools, Floats, Ints, succeeded

_NO_TOKEN = -1  # pads rounds that offered fewer slots or candidates; never a token id


@dataclass(frozen=True)
class Coverage:
    """Shares in [0, 1]; NaN where no round had the slot. Slot i of the paper is row i - 1, top-k is column k - 1."""

    by_slot: Floats  # [N, k]
    slots: Ints  # [N] rounds that count for each slot
    rounds: int
    requests: int
    unrecorded: int  # successful requests without candidates
    argmax_tau: float | None  # delivered tokens a round if each slot proposed its own top-1
    oracle_tau: float | None  # … if each slot proposed the committed token whenever it is among its candidates
    prompt_hits: Floats  # [prompts, N, k]
    prompt_slots: Floats  # [prompts, N]

    @property
    def block_mean(self) -> Floats:
        """Mean of coverage over the slots, by k [k]."""
        seen = self.slots > 0
        return self.by_slot[seen].mean(axis=0) if seen.any() else np.full(self.by_slot.shape[1], np.nan)

    @property
    def recoverable(self) -> float | None:
        """Share of the slots with a wrong top-1 whose answer is among the candidates (block means)."""
        mean = self.block_mean
        if not len(mean) or not mean[0] < 1:
            return None
        return float((mean[-1] - mean[0]) / (1 - mean[0]))


def coverage(requests: Sequence[RequestRecord]) -> Coverage:
    """Coverage of one cell's candidates.

    Raises UserError when a request's candidates do not belong to its drafting rounds.
    """
    good = succeeded(requests)
    recorded = [r for r in good if r.candidates is not None and r.rounds is not None]
    candidates, anchor, owner = _rows(recorded)
    rounds, width, depth = candidates.shape
    lengths = np.array([len(r.output_ids) for r in recorded], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if recorded else np.zeros(0, np.int64)
    outputs = np.fromiter(chain.from_iterable(r.output_ids for r in recorded), np.int64)

    left = lengths[owner] - 1 - anchor  # tokens after the anchor
    slot = np.arange(1, width + 1)
    inside: Bools = slot[None, :] <= left[:, None]
    inside &= (candidates != _NO_TOKEN).any(axis=2)
    at = np.where(inside, first[owner][:, None] + anchor[:, None] + slot[None, :], 0)
    committed = outputs[at] if len(outputs) else np.zeros((rounds, width), np.int64)
    within: Bools = np.logical_or.accumulate(candidates == committed[:, :, None], axis=2) & inside[:, :, None]

    counts = inside.sum(axis=0)
    hits = within.sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_slot = hits / counts[:, None]
    cluster, prompts = clusters(np.array([recorded[i].index for i in owner], dtype=np.int64))
    prompt_hits, prompt_slots = np.zeros((prompts, width, depth)), np.zeros((prompts, width))
    np.add.at(prompt_hits, cluster, within)
    np.add.at(prompt_slots, cluster, inside)
    return Coverage(
        by_slot=by_slot,
        slots=counts,
        rounds=rounds,
        requests=len(recorded),
        unrecorded=len(good) - len(recorded),
        argmax_tau=_tau(within[:, :, 0], left) if rounds and depth else None,
        oracle_tau=_tau(within[:, :, -1], left) if rounds and depth else None,
        prompt_hits=prompt_hits,
        prompt_slots=prompt_slots,
    )


def coverage_draws(c: Coverage, label: str, slot: int, k: int) -> Draws:
    """Coverage of a zero-based slot by the top `k`, resampled over prompts. `label`: as for `ratio_of_sums`."""
    return ratio_of_sums(c.prompt_hits[:, slot, k - 1], c.prompt_slots[:, slot], label)


def _tau(hit: Bools, left: Ints) -> float:
    """Mean delivered tokens of rounds that accept the leading run of hits and add the target's own token."""
    run = np.logical_and.accumulate(hit, axis=1).sum(axis=1)
    return float(np.minimum(run + 1, left).mean())


def _rows(requests: Sequence[RequestRecord]) -> tuple[Ints, Ints, Ints]:
    """Candidates [rounds, N, k] padded with -1, anchor and request of every drafting round with a token after it."""
    rows: list[list[list[int]]] = []
    anchors: list[int] = []
    owners: list[int] = []
    for place, r in enumerate(requests):
        if r.rounds is None or r.candidates is None:
            continue
        drafting = [i for i, d in enumerate(r.rounds.drafted) if d > 0]
        if len(drafting) != len(r.candidates):
            raise UserError(
                f"prompt {r.prompt_id} turn {r.turn}: candidates of {len(r.candidates)} rounds, "
                f"but {len(drafting)} rounds drafted; the log is broken, run the cell again"
            )
        before = np.concatenate([[0], np.cumsum(r.rounds.delivered)]).astype(int).tolist()
        for i, row in zip(drafting, r.candidates, strict=True):
            if before[i] < len(r.output_ids) - 1:
                rows.append(row)
                anchors.append(before[i])
                owners.append(place)
    width = max((len(row) for row in rows), default=0)
    depth = max((len(slot) for row in rows for slot in row), default=0)
    return _padded(rows, width, depth), np.array(anchors, dtype=np.int64), np.array(owners, dtype=np.int64)


def _padded(rows: list[list[list[int]]], width: int, depth: int) -> Ints:
    if all(len(row) == width and all(len(slot) == depth for slot in row) for row in rows):
        return np.array(rows, dtype=np.int64).reshape(len(rows), width, depth)
    block = np.full((len(rows), width, depth), _NO_TOKEN, dtype=np.int64)
    for r, row in enumerate(rows):
        for i, slot in enumerate(row):
            block[r, i, : len(slot)] = slot
    return block
