"""What stands in one slot of a table: a number from one point, its partner in parentheses, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dcoco_bench.cells import Sampling
from dcoco_bench.log import SuiteRecord
from dcoco_bench.report.means import mean_of
from dcoco_bench.report.paper.modes import Address, Mode
from dcoco_bench.report.points import Point
from dcoco_bench.report.results import measured, speedup, tau
from dcoco_bench.report.table import BLANK, Entry
from dcoco_bench.stats.intervals import Draws, Estimate
from dcoco_bench.stats.paired import Metric, Result, paired_ratio

Value = Callable[[Address], Result]


@dataclass
class Values:
    """Numbers of a mode by address. A row shows one list of prompts; who decoded another one is left blank there."""

    mode: Mode

    def point(self, at: Address) -> Point | None:
        return self.mode.point(at)

    def metric(self, at: Address, metric: Metric) -> Result:
        point = self.point(at)
        if point is None or not point.shown:
            return _blank(point.blank if point else "")
        if other := self._other_prompts(at):
            return _blank(other)
        return tau(point, metric) if metric.startswith("tau") else measured(point, metric)

    def speedup(self, at: Address) -> Result:
        point = self.point(at)
        if point is None or not point.shown or self._other_prompts(at):
            return _blank("")  # the value beside it says why
        return speedup(point)

    def change(self, at: Address, against: str, metric: Metric) -> Result:
        """Relative to another method at the same place, paired over prompts; times are compared within a run only."""
        ours, theirs = self.point(at), self.point(at._replace(method=against))
        if at.method == against or ours is None or not ours.shown or self._other_prompts(at):
            return _blank("")
        if theirs is None or not theirs.shown:
            return _blank(f"no change: {against} {'was not run' if theirs is None else theirs.blank}")
        for point in (ours, theirs):
            if point.definition_clash and metric.startswith("tau"):
                return _blank(point.definition_clash)
        if ours.run != theirs.run and not metric.startswith("tau"):
            return _blank(f"no change: {against} was measured in another run")
        ratio = paired_ratio(ours.shown, theirs.shown, metric)
        e = ratio.estimate
        shifted = replace(e, **{k: v - 1 for k in ("value", "lo", "hi") if (v := getattr(e, k)) is not None})
        return Result(_shift(ratio.draws), shifted)

    def mean(self, suites: Sequence[str], at: Address, value: Value) -> Entry:
        """Unweighted mean over exactly `suites`: a mean over fewer would not stand beside its neighbours."""
        slots = [at._replace(suite=suite) for suite in suites]
        have = [slot for slot in slots if (p := self.point(slot)) is not None and p.whole]
        if not have:
            return BLANK
        if len(have) < len(slots):
            lost = ", ".join(slot.suite for slot in slots if slot not in have)
            return Entry(None, reason=f"no mean: {len(have)} of {len(slots)} suites, without {lost}")
        results = [value(slot) for slot in slots]
        if any(r.estimate.value is None for r in results):
            why = next(r.estimate.reason for r in results if r.estimate.value is None)
            return Entry(None, reason=f"no mean: {why}") if why else BLANK
        return replace(mean_of(results), cells=cells_of(p for slot in slots if (p := self.point(slot))))

    def _other_prompts(self, at: Address) -> str:
        """Why the slot's prompts do not belong into its row; empty when they do."""
        mine, row = self.point(at), self._row_prompts.get(at[:3])
        if mine is None or not mine.logs or row is None:
            return ""
        suite = mine.logs[0].record.suite
        if suite.version != row.version:
            return f"left out: suite version {suite.version}, the row shows version {row.version}"
        if suite.prompt_hash != row.prompt_hash:
            theirs = f"{row.prompts}, {row.prompt_hash}"
            return f"left out: other prompts ({suite.prompts}, {suite.prompt_hash}; the row: {theirs})"
        return ""

    @cached_property
    def _row_prompts(self) -> dict[tuple[Sampling, int, str], SuiteRecord]:
        """The prompts that a row shows: vanilla's, else those of its first method."""
        rows: dict[tuple[Sampling, int, str], SuiteRecord] = {}
        for at in self.mode.measured:
            point = self.point(at)
            if point and point.logs and (point.is_reference or at[:3] not in rows):
                rows[at[:3]] = point.logs[0].record.suite
        return rows


def cells_of(points: Iterable[Point]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{p.run}/{log.record.id}" for p in points for log in p.shown))


def entry(result: Result, point: Point | None) -> Entry:
    """With the cells that it came from, and with what makes it doubtful."""
    found = Entry.of(result.estimate, cells_of([point]) if point else ())
    if point and found.value is not None and not point.usable:
        return replace(found, reason=point.blank)
    return found


def mark_best(row: dict[str, Entry], keys: Iterable[str], whole: Callable[[str], bool] = lambda key: True) -> None:
    """Bold for the highest value among `keys`, where there are two or more to choose from."""
    values = {k: v for k in keys if isinstance(v := row.get(k, BLANK).value, float | int) and whole(k)}
    if len(values) > 1:
        top = max(values.values())
        row.update({k: replace(row[k], best=True) for k, v in values.items() if v == top})


def _blank(reason: str) -> Result:
    return Result(None, Estimate(None, reason=reason))


def _shift(draws: Draws | None) -> Draws | None:
    """A ratio's draws as those of the change, ratio - 1."""
    if draws is None:
        return None
    return Draws(draws.value - 1, draws.resampled - 1, tuple(block - 1 for block in draws.left_out))
