"""A cell's log with its arrays, and which cells belong together: the same point at several seeds, and its baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dcoco_bench.cells import Cell
from dcoco_bench.log import CellRecord, RequestRecord, ScoreRecord
from dcoco_bench.method import MethodSpec
from dcoco_bench.stats.acceptance import Acceptance, acceptance, vanilla_acceptance
from dcoco_bench.stats.identities import broken_identities
from dcoco_bench.stats.requests import RequestTable, request_table
from dcoco_bench.stats.throughput import Throughput, throughput

BASELINE = "vanilla"  # the method that drafts nothing; every speed-up is against it

SUCCESS_FLOOR = 0.95  # a cell with fewer of its prompts answered is truncated and never averaged in (C04, C23)


def is_baseline(method: str) -> bool:
    """True for plain decoding, repeats for the control (`vanilla@repeat=1`) included."""
    return MethodSpec.parse(method).name == BASELINE


@dataclass(frozen=True)
class CellLog:
    """A finished cell: its record and its request lines."""

    record: CellRecord
    requests: Sequence[RequestRecord]
    scores: ScoreRecord | None = None  # of `score`, where it was asked for

    @property
    def cell(self) -> Cell:
        return self.record.cell

    @cached_property
    def table(self) -> RequestTable:
        return request_table(self.requests)

    @cached_property
    def acceptance(self) -> Acceptance:
        return vanilla_acceptance(self.table) if is_baseline(self.cell.method) else acceptance(self.table)

    @cached_property
    def throughput(self) -> Throughput:
        return throughput(self.table, self.record.walls)

    @cached_property
    def broken(self) -> list[str]:
        """Broken identities of the log (`measurement.md` section 4)."""
        k = self.record.effective.get("draft_tokens")
        drafted = k if isinstance(k, int) and not self.acceptance.by_construction else None
        # After a resume the counters cover the last segment only and cannot be held against all requests.
        counters = self.record.counters if len(self.record.walls) < 2 else None
        return broken_identities(self.requests, self.acceptance, drafted, counters)

    @cached_property
    def answered(self) -> int:
        """Prompts with at least one successful request and no failed one."""
        good = set(self.table.prompt.tolist())
        return len(good - {r.index for r in self.requests if r.finish_reason == "error" or r.error is not None})

    @cached_property
    def unusable(self) -> str | None:
        """Why the cell must not be averaged in, or None."""
        if self.record.status == "failed":
            return f"failed: {self.record.error or 'no reason given'}"
        if not len(self.table):
            return "failed: no successful request"
        if self.broken:
            return f"invalid: {self.broken[0]}"
        if self.answered < SUCCESS_FLOOR * self.record.suite.prompts:
            return f"truncated: {self.answered} of {self.record.suite.prompts} prompts answered"
        if self.acceptance.inactive:
            return f"drafter inactive: {self.acceptance.inactive}"
        return None


def without_seed(cell: Cell) -> str:
    """Key of a point: equal for cells that differ only in their seed."""
    return cell.model_copy(update={"seed": 0}).canonical()


def by_point(logs: Iterable[CellLog]) -> dict[str, list[CellLog]]:
    """Cells grouped over seeds, in the order of their first cell."""
    points: dict[str, list[CellLog]] = {}
    for log in logs:
        points.setdefault(without_seed(log.cell), []).append(log)
    return points


def baseline_key(cell: Cell) -> str:
    """Key of the point to compare with: same engine, prompts, load and sampling, decoded without drafts."""
    return without_seed(cell.model_copy(update={"method": BASELINE}))
