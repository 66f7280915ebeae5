"""Modes: everything that one table of the paper may hold, gathered from one run or several.

Points of a mode differ in suite, method, streams and sampling only. Runs on other hardware, with other limits or other
definitions, with sample prompts, or simulated make modes of their own, so no table can mix them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dcoco_bench.cells import Cell, Sampling
from dcoco_bench.method import MethodSpec
from dcoco_bench.report.points import Point
from dcoco_bench.stats.cells import is_baseline


class Address(NamedTuple):
    sampling: Sampling
    concurrency: int
    suite: str
    method: str


@dataclass
class Mode:
    """One backbone in one thinking mode on one machine. `measured` holds a slot's points, the oldest run first."""

    cell: Cell  # any cell of the mode: what is not in an Address
    hardware: str
    simulated: bool
    sample: bool
    measured: dict[Address, list[Point]] = field(default_factory=dict)

    def point(self, at: Address) -> Point | None:
        """The newest measurement of a slot."""
        return self.measured[at][-1] if at in self.measured else None

    @property
    def machine(self) -> tuple[str, ...]:
        """What modes must share to stand in one overview."""
        cell = self.cell
        doubt = str((self.simulated, self.sample, cell.record_candidates))
        return (cell.engine, cell.dtype, cell.turns, *cell.engine_args, self.hardware, doubt)

    @property
    def samplings(self) -> list[Sampling]:
        found = dict.fromkeys(at.sampling for at in self.measured)
        return sorted(found, key=lambda s: (s.temperature, s.top_p, s.top_k))

    @property
    def levels(self) -> list[int]:
        return sorted({at.concurrency for at in self.measured})

    @property
    def main_level(self) -> int:
        """The streams of the main tables: the fewest that were measured, 1 in the paper."""
        return self.levels[0]

    @property
    def suites(self) -> list[str]:
        return list(dict.fromkeys(at.suite for at in self.measured))

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(at.method for at in self.measured))

    @property
    def title(self) -> str:
        c = self.cell
        parts = [
            f"{c.backbone}, thinking {'on' if c.thinking else 'off'}",
            f"{c.engine} engine, {c.dtype}",
            f"at most {c.max_tokens} tokens",
        ]
        parts += ["first turns only"] if c.turns == "first" else []
        parts += ["candidates recorded"] if c.record_candidates else []
        parts += list(c.engine_args)
        parts += ["SIMULATED acceptance"] if self.simulated else []
        parts += ["SAMPLE prompts, not the suites"] if self.sample else []
        return ", ".join(parts)

    @property
    def notes(self) -> list[str]:
        """What merging did, one sentence each."""
        runs = {p.run for points in self.measured.values() for p in points}
        twice = [points for points in self.measured.values() if len(points) > 1]
        found = []
        if len(runs) > 1:
            found.append(f"Merged from runs {', '.join(sorted(runs))}; a speed-up is against vanilla of its own run.")
        if twice:
            first = twice[0]
            others = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
            found.append(
                f"Measured more than once, the newest is shown: {first[-1].cell.label}{others} "
                f"(in {', '.join(p.run for p in first)}; {first[-1].run} is shown)."
            )
        return found


def modes_of(points: Iterable[Point]) -> list[Mode]:
    """Points of all runs, older runs first, as modes in the order in which they are first seen."""
    points = list(points)
    modes: dict[tuple[str, ...], Mode] = {}
    for point in points:
        known = point if point.logs else _neighbour(point, points)
        sample = known.origin == "sample"
        key = (_shared(point.cell).canonical(), known.hardware, str(known.simulated), str(sample))
        mode = modes.setdefault(key, Mode(point.cell, known.hardware, known.simulated, sample))
        c = point.cell
        mode.measured.setdefault(Address(c.sampling, c.concurrency, c.suite, c.method), []).append(point)
    return list(modes.values())


def extra_methods(mode: Mode, declared: Iterable[str]) -> list[str]:
    """Drafters of the log beside the paper's: plain ones, and variants of which the plain form was not measured."""
    taken, found = set(declared), []
    for spec in mode.methods:
        parsed = MethodSpec.parse(spec)
        if not is_baseline(spec) and spec not in taken and (not parsed.params or parsed.name not in mode.methods):
            found.append(spec)
    return found


def sampling_text(sampling: Sampling) -> str:
    text = f"{sampling.temperature:g}"
    text += f", top-p {sampling.top_p:g}" if sampling.top_p < 1 else ""
    return text + (f", top-k {sampling.top_k}" if sampling.top_k else "")


def _shared(cell: Cell) -> Cell:
    blank = {"seed": 0, "suite": "", "method": "", "concurrency": 1, "num_prompts": None, "sampling": Sampling()}
    return cell.model_copy(update=blank)


def _neighbour(point: Point, points: list[Point]) -> Point:
    """An unfinished point has no origin or hardware yet; it goes where its finished neighbours are."""
    mine = _shared(point.cell)
    same = (p for p in points if p.run == point.run and p.logs and _shared(p.cell) == mine)
    return next(same, next((p for p in points if p.run == point.run and p.logs), point))
