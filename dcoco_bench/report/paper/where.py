"""Columns that say what a row of a paper's table was measured on. In the CSV only: for a reader the title says it."""

from __future__ import annotations

from dcoco_bench.report.paper.modes import Mode
from dcoco_bench.report.paper.reference import PaperValue, setting
from dcoco_bench.report.table import Column, Entry

_KEYS = ("backbone", "thinking", "engine", "dtype", "turns", "max_tokens", "streams", "hardware", "simulated", "origin")
WHERE = tuple(Column(key, "", shown=False) for key in _KEYS)


def where(mode: Mode) -> dict[str, Entry]:
    c = mode.cell
    return {
        "backbone": Entry(c.backbone),
        "thinking": Entry("on" if c.thinking else "off"),
        "engine": Entry(c.engine),
        "dtype": Entry(c.dtype),
        "turns": Entry(c.turns),
        "max_tokens": Entry(c.max_tokens),
        "streams": Entry(mode.main_level),
        "hardware": Entry(mode.hardware),
        "simulated": Entry("yes" if mode.simulated else "no"),
        "origin": Entry("sample" if mode.sample else "suite"),
    }


def paper_where(value: PaperValue) -> dict[str, Entry]:
    return {
        "backbone": Entry(value.backbone),
        "thinking": Entry(value.thinking),
        "streams": Entry(value.concurrency),
        "hardware": Entry(setting()),
        "origin": Entry("paper"),
    }
