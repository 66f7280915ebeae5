"""Losslessness at T = 0: token ids against vanilla's, prompt by prompt (`measurement.md` section 2.5).

Two plain runs may already differ, so a rate means little without its control: a second vanilla cell
(`--method vanilla,vanilla@repeat=1,…`), compared with the first by the same function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from dcoco_bench.errors import UserError
from dcoco_bench.log import RequestRecord
from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.intervals import LEVEL, Estimate


@dataclass(frozen=True)
class Divergence:
    """Where two answers to one prompt part. `index` counts output tokens of that turn from 0."""

    prompt_id: str
    turn: int
    index: int
    expected: int | None  # vanilla's token; None = vanilla's answer had ended
    found: int | None
    margin: float | None  # the target's top-1 minus top-2 logit there, where recorded: near 0 is a tie


@dataclass(frozen=True)
class Match:
    """Prompts with identical output over all turns. `rate` carries a Wilson interval."""

    prompts: int
    matched: int
    excluded: int  # prompts that failed, or are missing, on either side
    rate: Estimate
    divergences: tuple[Divergence, ...]  # the first of every prompt that differs, in prompt order

    @property
    def earliest(self) -> Divergence | None:
        return min(self.divergences, key=lambda d: (d.index, d.prompt_id), default=None)


def match(ours: CellLog, reference: CellLog) -> Match:
    """Compare a greedy cell with its reference. Raises UserError at T > 0 or when the prompts are not the same."""
    for log in (ours, reference):
        if not log.cell.sampling.greedy:
            raise UserError(f"cell {log.record.id} has T={log.cell.sampling.temperature:g}; token match needs T=0")
    mine, theirs = ours.record.suite, reference.record.suite
    if mine.prompt_hash != theirs.prompt_hash:
        raise UserError(
            f"cells {ours.record.id} and {reference.record.id} decoded other prompts "
            f"({mine.prompt_hash} against {theirs.prompt_hash}); token match needs the same"
        )
    return match_requests(ours.requests, reference.requests)


def match_requests(ours: Sequence[RequestRecord], reference: Sequence[RequestRecord]) -> Match:
    """Token match over the prompts whose turns all succeeded on both sides."""
    left, right = _by_prompt(ours), _by_prompt(reference)
    shared = [p for p in left if p in right and left[p] and right[p] and left[p].keys() == right[p].keys()]
    found = [d for p in sorted(shared) if (d := _first_divergence(left[p], right[p])) is not None]
    excluded = len(left.keys() | right.keys()) - len(shared)
    return Match(
        len(shared), len(shared) - len(found), excluded, wilson(len(shared) - len(found), len(shared)), tuple(found)
    )


def wilson(successes: int, trials: int) -> Estimate:
    """A share with its 95 % Wilson score interval, which stays honest at 100 %."""
    if not trials:
        return Estimate(None, reason="no prompt to compare")
    interval = stats.binomtest(successes, trials).proportion_ci(LEVEL, method="wilson")
    return Estimate(successes / trials, float(interval.low), float(interval.high), trials)


def _by_prompt(requests: Sequence[RequestRecord]) -> dict[int, dict[int, RequestRecord]]:
    """Turns of each prompt; a prompt with a failed turn has none."""
    prompts: dict[int, dict[int, RequestRecord]] = {}
    failed = set()
    for r in requests:
        prompts.setdefault(r.index, {})[r.turn] = r
        if r.finish_reason == "error" or r.error is not None or r.output_tokens is not None:  # no ids to compare
            failed.add(r.index)
    return {p: {} if p in failed else dict(sorted(turns.items())) for p, turns in prompts.items()}


def _first_divergence(ours: dict[int, RequestRecord], reference: dict[int, RequestRecord]) -> Divergence | None:
    """In the first turn that differs; later turns answer another history and are not compared."""
    for turn, theirs in reference.items():
        mine = ours[turn]
        a, b = theirs.output_ids, mine.output_ids
        if a == b:
            continue
        differing = (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        at = next(differing, min(len(a), len(b)))
        margins = next((m for m in (theirs.margins, mine.margins) if m is not None and at < len(m)), None)
        return Divergence(
            prompt_id=theirs.prompt_id,
            turn=turn,
            index=at,
            expected=a[at] if at < len(a) else None,
            found=b[at] if at < len(b) else None,
            margin=margins[at] if margins is not None else None,
        )
    return None
