"""How the drafts of a log were trained: held-out tau against steps, of the very checkpoints that were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from dcoco_bench.log_read import Run
from dcoco_bench.provenance import weights_hash
from dcoco_bench.registry import BASELINE, Registry
from dcoco_bench.report.figures.figure import Figure
from dcoco_bench.report.figures.style import look

LOG = "training_log.jsonl"
CAPTION = "Held-out τ (teacher-forced answers, the served walk) against training steps; runs in succession are joined."


def curves_figure(runs: list[Run]) -> Figure | None:
    """Only checkpoints whose hash stands in a log, so that a report never shows another draft's curve."""
    registry = Registry()
    hashes = {str(c.record.provenance.get("checkpoint")) for run in runs for c in run.cells if c.record}
    backbones = dict.fromkeys(b for run in runs for b in run.record.matrix.backbones)
    rows: list[dict[str, Any]] = []
    for name, entry in registry.entries.items():
        for backbone in backbones if name != BASELINE else ():
            folder = entry.own_checkpoint(backbone)
            if folder and (folder / LOG).is_file() and weights_hash(folder) in hashes:
                rows += [{"method": name, "backbone": backbone, **point} for point in curve(folder / LOG)]
    return Figure("training", "Training curves", CAPTION, rows, _draw) if rows else None


def curve(file: Path) -> list[dict[str, float]]:
    """Steps and held-out tau of a training log; a run that starts anew from another is put behind it."""
    points, done, last, name = [], 0.0, 0.0, None
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if name is not None and row.get("run") != name:
            done, last = done + last, 0.0
        name, last = row.get("run"), float(row["step"])
        if "tau" in row:
            points.append({"step": done + last, "tau": float(row["tau"])})
    return points


def _draw(pyplot: Any, data: pd.DataFrame) -> Any:
    figure, axes = pyplot.subplots(figsize=(4.8, 3.4))
    methods = tuple(dict.fromkeys(data["method"]))
    for method in methods:
        mine, style = data[data["method"] == method], look(method, methods)
        axes.plot(
            mine["step"], mine["tau"], color=style.colour, marker=style.marker, linestyle=style.dash, label=method
        )
    axes.set_xlabel("training steps")
    axes.set_ylabel("held-out τ")
    axes.legend(loc="best")
    return figure
