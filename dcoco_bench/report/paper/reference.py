"""The paper's own numbers. They are shown in rows and columns labelled `paper` only, never beside an interval."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import model_validator

from dcoco_bench.cells import Frozen
from dcoco_bench.report.table import Entry

Metric = Literal[
    "tau",
    "speedup",
    "tau_change",
    "tps_change",
    "round_change",
    "coverage",
    "recoverable",
    "parameters",
    "cells_won",
]


class PaperValue(Frozen):
    """One number, or a range, that the paper or a model card states. Changes and shares are fractions."""

    id: str
    table: str  # the table of `report.paper` that it belongs to; "none"
    metric: Metric
    backbone: str
    thinking: Literal["off", "on", "both"]
    temperature: float
    concurrency: int
    suite: str  # "mean", or which suites
    suites: int  # how many the number is taken over
    method: str
    against: str = ""  # the other side of a change
    slot: str = ""
    k: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None
    source: Literal["summary", "card", "derived"]
    note: str = ""

    @model_validator(mode="after")
    def _has_a_number(self) -> PaperValue:
        if self.value is None and self.low is None and self.high is None:
            raise ValueError(f"{self.id}: give value, or low and high")
        return self

    @property
    def cited(self) -> str:
        """Where the number stands."""
        return {
            "summary": f"{paper()}, by a summary of it",
            "card": "model card of TD-Labs",
            "derived": f"derived from {paper()}",
        }[self.source]

    @property
    def entry(self) -> Entry:
        """For a table; a range is written as text."""
        if self.value is not None:
            return Entry(self.value, source=self.cited)
        ends = [f"{end:g}" for end in (self.low, self.high) if end is not None]
        return Entry(("up to " if self.low is None else "") + " to ".join(ends), source=self.cited)


def paper() -> str:
    return str(_file()["paper"])


def setting() -> str:
    """What the paper's times were measured on."""
    return str(_file()["setting"])


@cache
def paper_values() -> tuple[PaperValue, ...]:
    """All values of `values.toml`, in its order."""
    raw = _file()
    return tuple(PaperValue.model_validate({**raw["defaults"], **given}) for given in raw["values"])


def find(**where: Any) -> list[PaperValue]:
    """Values whose fields equal all of `where`, e.g. find(table="table7", metric="tau")."""
    return [v for v in paper_values() if all(getattr(v, key) == wanted for key, wanted in where.items())]


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("values.toml").read_text(encoding="utf-8"))
