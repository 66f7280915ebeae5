"""Bars by suite or by method: speed-ups over vanilla, and where the time of a round goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dcoco_bench.report.figures.figure import Figure
from dcoco_bench.report.figures.style import look
from dcoco_bench.report.points import Setting
from dcoco_bench.report.results import PHASE_COLUMNS, speedup
from dcoco_bench.stats.throughput import phase_split

SPEED_CAPTION = "TPS per stream over vanilla's, same run and load; 95 % interval. Below 1: slower than plain decoding."
PHASE_CAPTION = "Engine time per step by phase, prefill excluded; a step serves all streams once. Mean over suites."
PHASE_COLOURS = ("#0072B2", "#E69F00", "#999999", "#DDDDDD")
HATCHES = ("", "//", "", "..")


def speed_figure(setting: Setting, number: int, level: int) -> Figure | None:
    """Speed-up bars of one load by suite. None without a baseline."""
    rows = []
    for point in setting.points:
        if point.cell.concurrency != level or not point.drafts:
            continue
        found = speedup(point).estimate
        if found.value is not None:
            where = {"suite": point.suite, "method": point.cell.method}
            rows.append({**where, "speedup": found.value, "lo": found.lo, "hi": found.hi})
    if not rows:
        return None
    title = f"Speed-up at {level} streams: {setting.title}"
    return Figure(f"speedup-{number}-c{level}", title, SPEED_CAPTION, rows, _draw_speed)


def _draw_speed(pyplot: Any, data: pd.DataFrame) -> Any:
    suites, methods = list(dict.fromkeys(data["suite"])), tuple(dict.fromkeys(data["method"]))
    figure, axes = pyplot.subplots(figsize=(max(4.0, 0.32 * len(suites) * len(methods) + 1.5), 3.4))
    width = 0.8 / len(methods)
    for turn, method in enumerate(methods):
        mine, style = data[data["method"] == method].set_index("suite").reindex(suites), look(method, methods)
        at = np.arange(len(suites)) + (turn - (len(methods) - 1) / 2) * width
        spread = [(mine["speedup"] - mine["lo"]).fillna(0), (mine["hi"] - mine["speedup"]).fillna(0)]
        axes.bar(at, mine["speedup"], width * 0.92, color=style.colour, label=method)
        axes.errorbar(at, mine["speedup"], yerr=spread, fmt="none", ecolor="black", elinewidth=0.8, capsize=1.5)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(suites)), suites)
    axes.set_ylabel("speed-up over vanilla")
    axes.legend(ncols=min(4, len(methods)), loc="upper center", bbox_to_anchor=(0.5, 1.18))
    return figure


def phase_figure(setting: Setting, number: int) -> Figure | None:
    """Stacked phases of a step by method and load. None where the engine timed nothing."""
    rows = []
    for level in sorted({p.cell.concurrency for p in setting.points}):
        for method in dict.fromkeys(p.cell.method for p in setting.points):
            mine = [p for p in setting.points if (p.cell.concurrency, p.cell.method) == (level, method)]
            splits = [split for p in mine for log in p.shown if (split := phase_split(log.record.counters))]
            if splits:
                means = {p: float(np.mean([s.get(p, 0.0) for s in splits])) for p in PHASE_COLUMNS}
                rows.append({"method": method, "streams": level, **means})
    if not rows:
        return None
    return Figure(f"phases-{number}", f"Where a step's time goes: {setting.title}", PHASE_CAPTION, rows, _draw_phases)


def _draw_phases(pyplot: Any, data: pd.DataFrame) -> Any:
    labels = [f"{m}, {s}" for m, s in zip(data["method"], data["streams"], strict=True)]
    figure, axes = pyplot.subplots(figsize=(5.6, 0.28 * len(labels) + 1.2))
    left = np.zeros(len(data))
    for phase, colour, hatch in zip(PHASE_COLUMNS, PHASE_COLOURS, HATCHES, strict=True):
        width = 1000 * data[phase].to_numpy()
        axes.barh(range(len(data)), width, left=left, color=colour, hatch=hatch, edgecolor="white", label=phase)
        left += width
    axes.set_yticks(range(len(data)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("ms per step (method, streams)")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    return figure
