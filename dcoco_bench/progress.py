"""Progress of a run on stderr: a bar on a terminal, plain lines about every ten seconds elsewhere."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from time import monotonic
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

PLAIN_EVERY_S = 10.0
BAR_EVERY_S = 0.5


class RunProgress(ABC):
    """Counts for the cell that runs now. Subclasses only draw."""

    every_s: float

    def __init__(self) -> None:
        self.cells = self.number = self.total = self.done = self.tokens = self.in_flight = 0
        self.label = ""
        self._cell_began = self._drawn = monotonic()
        self._cells_timed, self._cells_seconds = 0, 0.0
        self._done_before = 0

    def run_started(self, cells: int) -> None:
        self.cells = cells

    def cell_started(self, number: int, label: str, total: int, done: int) -> None:
        """`number` counts from 1; `total` requests of which `done` were kept from before a resume."""
        self.number, self.label, self.total, self.done = number, label, total, done
        self._done_before, self.tokens, self.in_flight = done, 0, 0
        self._cell_began = monotonic()
        self.draw()

    def advance(self, requests: int, tokens: int) -> None:
        self.done += requests
        self.tokens += tokens

    def tick(self, in_flight: int) -> None:
        self.in_flight = in_flight
        if monotonic() - self._drawn >= self.every_s:
            self.draw()

    def cell_ended(self, outcome: str) -> None:
        self._cells_timed += 1
        self._cells_seconds += monotonic() - self._cell_began
        self.in_flight = 0
        self.note(f"[{self.number}/{self.cells}] {self.label}: {outcome}")

    def draw(self) -> None:
        self._drawn = monotonic()
        self._draw()

    @property
    def rate(self) -> float:
        """Tokens per second of this cell so far, all streams together."""
        return (self.tokens + self.in_flight) / max(monotonic() - self._cell_began, 1e-6)

    @property
    def seconds_left(self) -> float | None:
        """Of the whole run, from this cell's pace and the mean time of the cells before it."""
        new, elapsed = self.done - self._done_before, monotonic() - self._cell_began
        if new <= 0:
            return None
        here = elapsed * (self.total - self.done) / new
        mean = (self._cells_seconds + elapsed + here) / (self._cells_timed + 1)
        return max(here, 0.0) + mean * (self.cells - self.number)

    def line(self) -> str:
        left = self.seconds_left
        rest = f", {duration(left)} left" if left is not None else ""
        return f"{self.label}: {self.done}/{self.total} requests, {self.rate:.0f} tok/s{rest}"

    @abstractmethod
    def _draw(self) -> None: ...

    @abstractmethod
    def note(self, text: str) -> None:
        """A line that stays."""

    def close(self) -> None:
        return None


class PlainProgress(RunProgress):
    every_s = PLAIN_EVERY_S

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._stream = stream or sys.stderr

    def _draw(self) -> None:
        self.note(f"[{self.number}/{self.cells}] {self.line()}")

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class BarProgress(RunProgress):
    every_s = BAR_EVERY_S

    def __init__(self, console: Console) -> None:
        super().__init__()
        # No refresh thread: it would take CPU time from what is measured.
        columns = (
            TextColumn("[bold]{task.fields[cell]}"),
            BarColumn(24),
            TextColumn("{task.description}", markup=False),
        )
        self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._task: TaskID = self._bar.add_task("", total=None, cell="")
        self._bar.start()

    def _draw(self) -> None:
        self._bar.update(
            self._task,
            description=self.line(),
            cell=f"cell {self.number}/{self.cells}",
            total=self.total,
            completed=self.done,
        )
        self._bar.refresh()

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()


class NoProgress(RunProgress):
    every_s = float("inf")

    def _draw(self) -> None:
        return None

    def note(self, text: str) -> None:
        return None


def make_progress() -> RunProgress:
    console = Console(stderr=True)
    return BarProgress(console) if console.is_terminal else PlainProgress()


def duration(seconds: float) -> str:
    """`45s`, `3m 20s`, `2h 05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
