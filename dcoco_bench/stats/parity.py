"""Do two engines decode alike? The same prompts under one method, greedy, round for round.

Equal text is not enough: an engine that drafted something else, or nothing, gives the same text at another cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcoco_bench.errors import UserError
from dcoco_bench.log import RequestRecord
from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.intervals import Estimate
from dcoco_bench.stats.losslessness import Divergence, match, wilson


@dataclass(frozen=True)
class Parity:
    """Over the prompts that both engines answered. `rounds` counts prompts whose text *and* rounds are equal."""

    prompts: int
    text: Estimate  # share with equal token ids, Wilson interval
    rounds: Estimate  # share with equal token ids and equal rounds
    tau: tuple[float | None, float | None]  # delivered, of either engine
    divergences: tuple[Divergence, ...]  # of the text; a margin near 0 is a tie that rounding decides
    other_rounds: tuple[str, ...]  # prompts with equal text and unequal rounds

    @property
    def tau_ratio(self) -> float | None:
        """The first engine's tau over the second's."""
        first, second = self.tau
        return first / second if first and second else None


def parity(ours: CellLog, reference: CellLog) -> Parity:
    """Raises UserError where the cells differ in more than their engine: method, prompts, or T > 0."""
    if ours.cell.method != reference.cell.method:
        raise UserError(f"parity of {ours.cell.method} and {reference.cell.method}: give two runs of one method")
    found = match(ours, reference)
    differing = {(d.prompt_id, d.turn) for d in found.divergences}
    right = {(r.index, r.turn): r for r in reference.requests if not r.error}
    pairs = [(r, right[key]) for r in ours.requests if not r.error and (key := (r.index, r.turn)) in right]
    other = {a.prompt_id for a, b in pairs if (a.prompt_id, a.turn) not in differing and delivered(a) != delivered(b)}
    return Parity(
        prompts=found.prompts,
        text=found.rate,
        rounds=wilson(max(found.matched - len(other), 0), found.prompts),
        tau=(ours.acceptance.tau, reference.acceptance.tau),
        divergences=found.divergences,
        other_rounds=tuple(sorted(other)),
    )


def delivered(record: RequestRecord) -> Sequence[int] | None:
    """Tokens of each round. All but the last are accepted + 1; the last may be cut by the end of the output."""
    return record.rounds.delivered if record.rounds else None
