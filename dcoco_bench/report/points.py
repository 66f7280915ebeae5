"""Points: the cells of a run grouped over seeds, what is missing said; and settings: points that may share a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from dcoco_bench.cells import Cell
from dcoco_bench.log import TAU_DEFINITION
from dcoco_bench.log_read import Run
from dcoco_bench.stats.acceptance import Acceptance, acceptance
from dcoco_bench.stats.cells import BASELINE, CellLog, baseline_key, is_baseline, without_seed
from dcoco_bench.stats.coverage import Coverage, coverage
from dcoco_bench.stats.paired import Result

RESUME = "not finished; continue with: dcoco-bench run --resume"


@dataclass
class Point:
    """One (backbone, method, suite, load, sampling) of one run, at all its seeds."""

    run: str
    cell: Cell
    logs: list[CellLog] = field(default_factory=list)
    unfinished: int = 0  # seeds without a finished cell
    baseline: list[CellLog] = field(default_factory=list)
    _known: dict[str, Result] = field(default_factory=dict, repr=False)

    def once(self, name: str, compute: Callable[[], Result]) -> Result:
        """A statistic that several tables show: its resamples are drawn for the first of them."""
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]

    @cached_property
    def usable(self) -> list[CellLog]:
        """Cells that may be averaged."""
        return [log for log in self.logs if log.unusable is None]

    @cached_property
    def shown(self) -> list[CellLog]:
        """Cells whose numbers are shown: the usable ones; without any, the truncated and inactive ones, flagged."""
        doubtful = [log for log in self.logs if (log.unusable or "").startswith(("truncated", "drafter inactive"))]
        return self.usable or doubtful

    @property
    def whole(self) -> bool:
        """Every seed is there and usable: the point may enter a mean over suites."""
        return bool(self.usable) and len(self.usable) == len(self.logs) and not self.unfinished

    @property
    def blank(self) -> str:
        """Why the point has no numbers."""
        return next((log.unusable for log in self.logs if log.unusable), RESUME)

    @property
    def is_reference(self) -> bool:
        return self.cell.method == BASELINE

    @property
    def drafts(self) -> bool:
        return not is_baseline(self.cell.method)

    @property
    def origin(self) -> str:
        """`data`, `hub` or `sample`; empty while nothing is finished."""
        return self.logs[0].record.suite.origin if self.logs else ""

    @property
    def suite(self) -> str:
        """The suite's name as tables show it: a sample is never passed off as the suite."""
        return f"{self.cell.suite} (sample)" if self.origin == "sample" else self.cell.suite

    @property
    def hardware(self) -> str:
        return hardware(self.logs[0]) if self.logs else ""

    @cached_property
    def pooled(self) -> Acceptance | None:
        """Acceptance over all seeds; None without a drafting round."""
        if not self.shown or not self.drafts:
            return None
        a = acceptance([r for log in self.shown for r in log.requests])
        return a if a.rounds else None

    @cached_property
    def coverage(self) -> Coverage | None:
        """Candidate coverage over all seeds; None where no candidates were recorded."""
        requests = [r for log in self.shown for r in log.requests]
        if not self.drafts or not any(r.candidates for r in requests):
            return None
        found = coverage(requests)
        return found if found.rounds else None

    @cached_property
    def definition_clash(self) -> str:
        """Why the cells' tau cannot be read as ours; empty when it can."""
        named = {log.record.definitions.get("tau", "none") for log in self.logs}
        other = sorted(named - {TAU_DEFINITION})
        return f"the log names its τ {other[0]!r}, this report means {TAU_DEFINITION!r}" if other else ""

    @cached_property
    def simulated(self) -> bool:
        return any(log.record.effective.get("simulated") for log in self.logs)

    @cached_property
    def no_baseline(self) -> str:
        """Why there is nothing to compare with; empty when there is."""
        if not self.baseline:
            return (
                f"no {BASELINE} cell in this run; add it with: dcoco-bench run --method {BASELINE},{self.cell.method}"
            )
        bad = [log.unusable for log in self.baseline if log.unusable]
        if bad:
            return f"{BASELINE}: {bad[0]}"
        if self.logs and {hardware(log) for log in self.logs} != {hardware(log) for log in self.baseline}:
            return f"{BASELINE} was measured on other hardware"
        return ""


def hardware(log: CellLog) -> str:
    """What makes times comparable: the GPUs, or else the CPU, and how much of it was used. Empty where not recorded."""
    machine = log.record.provenance.get("machine") or {}
    torch = log.record.provenance.get("torch") or {}
    gpus = [str(gpu.get("name")) for gpu in torch.get("gpus") or []]
    parts = [*gpus, *(str(machine[key]) for key in ("cpu", "architecture") if machine.get(key))]
    if machine.get("cpus_usable"):
        parts.append(f"{machine['cpus_usable']} CPUs")
    if torch.get("threads"):
        parts.append(f"{torch['threads']} threads")
    return ", ".join(parts)


def points_of(run: Run) -> list[Point]:
    """Points of a run in the order of its cells; cells that never finished are there without logs."""
    planned = {cell.id: cell for cell in run.record.matrix.cells()}
    points: dict[str, Point] = {}
    for folder in run.cells:
        cell = folder.record.cell if folder.record else planned.get(folder.id)
        if cell is None:
            continue  # unfinished and from an older matrix: `run.problems` names it
        point = points.setdefault(without_seed(cell), Point(run.name, cell))
        if folder.record is None:
            point.unfinished += 1
        else:
            point.logs.append(CellLog(folder.record, folder.requests, folder.scores))
    for point in points.values():
        reference = points.get(baseline_key(point.cell))
        point.baseline = reference.logs if reference else []
    return list(points.values())


@dataclass
class Setting:
    """Points that one table may hold: they differ in suite, concurrency and method only."""

    title: str
    points: list[Point]

    @property
    def sample(self) -> bool:
        return any(p.origin == "sample" for p in self.points)


def settings(points: Iterable[Point]) -> list[Setting]:
    """Points by run, backbone, engine, sampling, thinking, limits, prompt origin and hardware, first seen first."""
    points = list(points)
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(_setting_key(point, points), []).append(point)
    return [Setting(_title(group), _ordered(group)) for group in groups.values()]


def _setting_key(point: Point, points: list[Point]) -> tuple[str, ...]:
    shared = point.cell.model_copy(update={"seed": 0, "suite": "", "method": "", "concurrency": 1, "num_prompts": None})
    # An unfinished point has no origin or hardware yet; it goes where its finished neighbours are.
    known = point if point.logs else next((p for p in points if p.run == point.run and p.logs), point)
    sample = "sample" if known.origin == "sample" else "suite"
    return point.run, shared.canonical(), sample, known.hardware, str(known.simulated)


def _title(points: list[Point]) -> str:
    cell = points[0].cell
    sampling = f"T={cell.sampling.temperature:g}"
    if cell.sampling.top_p < 1:
        sampling += f", top-p {cell.sampling.top_p:g}"
    if cell.sampling.top_k:
        sampling += f", top-k {cell.sampling.top_k}"
    parts = [
        cell.backbone,
        f"{cell.engine} engine",
        cell.dtype,
        sampling,
        f"thinking {'on' if cell.thinking else 'off'}",
    ]
    parts += [f"at most {cell.max_tokens} tokens"] + (["first turns only"] if cell.turns == "first" else [])
    parts += list(cell.engine_args)
    if any(p.simulated for p in points):
        parts.append("SIMULATED acceptance")
    if any(p.origin == "sample" for p in points):
        parts.append("SAMPLE prompts, not the suites")
    return ", ".join(parts)


def _ordered(points: list[Point]) -> list[Point]:
    suites = list(dict.fromkeys(p.cell.suite for p in points))
    methods = list(dict.fromkeys(p.cell.method for p in points))
    return sorted(points, key=lambda p: (suites.index(p.cell.suite), p.cell.concurrency, methods.index(p.cell.method)))
