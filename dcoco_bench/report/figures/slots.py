"""Figures over the slots of a block: coverage (the paper's Figure 1), acceptance by position, accepted lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dcoco_bench.log import RequestRecord
from dcoco_bench.report.figures.figure import Figure
from dcoco_bench.report.figures.style import look
from dcoco_bench.report.points import Setting
from dcoco_bench.stats.acceptance import Acceptance, acceptance
from dcoco_bench.stats.coverage import Coverage

SHOWN_K = (1, 2, 4, 8, 16)
COVERAGE_CAPTION = (
    "Share of draft slots whose k largest unary logits hold the token that was committed there; all slots count, "
    "reached or not. Mean over suites; {method}'s drafter."
)
POSITION_CAPTION = (
    "Conditional: of the rounds that reached a position, the share that accepted it. All suites of the setting pooled."
)
LENGTH_CAPTION = "Share of rounds by accepted draft tokens, before stop handling. All suites of the setting pooled."


def coverage_figures(setting: Setting, number: int) -> list[Figure]:
    """One for every method whose candidates were recorded."""
    made = []
    for method in dict.fromkeys(p.cell.method for p in setting.points):
        found = [c for p in setting.points if p.cell.method == method and (c := p.coverage) is not None]
        if found:
            name = f"coverage-{number}-{_file_name(method)}"
            caption = COVERAGE_CAPTION.format(method=method)
            made.append(Figure(name, f"Coverage by slot: {setting.title}", caption, _coverage(found), _draw_coverage))
    return made


def _coverage(found: list[Coverage]) -> list[dict[str, Any]]:
    by_slot = np.mean([np.asarray(c.by_slot, dtype=float) for c in found], axis=0)  # [N, K]
    return [
        {"slot": slot + 1, "k": k, "coverage": float(by_slot[slot, k - 1])}
        for k in SHOWN_K
        if k <= by_slot.shape[1]
        for slot in range(len(by_slot))
    ]


def _draw_coverage(pyplot: Any, data: pd.DataFrame) -> Any:
    figure, axes = pyplot.subplots(figsize=(4.6, 3.4))
    depths = sorted(set(data["k"]))
    for shade, (k, marker) in zip(np.linspace(0.75, 0.0, len(depths)), zip(depths, "os^Dv", strict=False), strict=True):
        mine = data[data["k"] == k]
        colour = (shade * 0.9, 0.45 * shade + 0.25, 0.7 - 0.25 * shade)
        axes.plot(mine["slot"], 100 * mine["coverage"], marker=marker, color=colour, label=f"top {k}")
    axes.set_ylim(0, 100)
    axes.set_xlabel("slot")
    axes.set_ylabel("coverage, %")
    axes.legend(loc="best", ncols=2)
    return figure


def position_figure(setting: Setting, number: int) -> Figure | None:
    rows = [
        {"method": method, "position": i, "conditional": conditional, "marginal": marginal}
        for method, found in _drafters(setting).items()
        for i, (conditional, marginal) in enumerate(zip(found.conditional, found.marginal, strict=True))
        if conditional is not None
    ]
    title = f"Acceptance by position: {setting.title}"
    return Figure(f"positions-{number}", title, POSITION_CAPTION, rows, _draw_positions) if rows else None


def _draw_positions(pyplot: Any, data: pd.DataFrame) -> Any:
    figure, axes = pyplot.subplots(figsize=(4.6, 3.4))
    methods = tuple(dict.fromkeys(data["method"]))
    for method in methods:
        mine, style = data[data["method"] == method], look(method, methods)
        axes.plot(mine["position"], 100 * mine["conditional"], **style.line, label=method)
    axes.set_xlabel("draft position (0 = first)")
    axes.set_ylabel("accepted of reached, %")
    axes.legend(loc="best")
    return figure


def length_figure(setting: Setting, number: int) -> Figure | None:
    rows = [
        {"method": method, "accepted": j, "share": count / sum(found.histogram)}
        for method, found in _drafters(setting).items()
        for j, count in enumerate(found.histogram)
    ]
    title = f"Accepted lengths: {setting.title}"
    return Figure(f"lengths-{number}", title, LENGTH_CAPTION, rows, _draw_lengths) if rows else None


def _draw_lengths(pyplot: Any, data: pd.DataFrame) -> Any:
    methods = tuple(dict.fromkeys(data["method"]))
    figure, axes = pyplot.subplots(figsize=(5.2, 3.4))
    width = 0.8 / len(methods)
    for turn, method in enumerate(methods):
        mine = data[data["method"] == method]
        at = mine["accepted"] + (turn - (len(methods) - 1) / 2) * width
        axes.bar(at, 100 * mine["share"], width * 0.95, color=look(method, methods).colour, label=method)
    axes.set_xlabel("accepted draft tokens in a round")
    axes.set_ylabel("rounds, %")
    axes.legend(loc="best")
    return figure


def _drafters(setting: Setting) -> dict[str, Acceptance]:
    """Acceptance over all suites and loads of the setting, by method."""
    requests: dict[str, list[RequestRecord]] = {}
    for point in setting.points:
        if point.pooled is not None:
            requests.setdefault(point.cell.method, []).extend(r for log in point.shown for r in log.requests)
    return {method: acceptance(mine) for method, mine in requests.items()}


def _file_name(method: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in method)
