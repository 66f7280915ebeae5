"""Every figure that the logs can fill."""

from __future__ import annotations

from dcoco_bench.log_read import Run
from dcoco_bench.report.figures.bars import phase_figure, speed_figure
from dcoco_bench.report.figures.curves import curves_figure
from dcoco_bench.report.figures.figure import Figure
from dcoco_bench.report.figures.load import load_figure
from dcoco_bench.report.figures.slots import coverage_figures, length_figure, position_figure
from dcoco_bench.report.points import Setting


def all_figures(runs: list[Run], groups: list[Setting], reference: str) -> list[Figure]:
    """In the order of the settings; numbered by them, so that names stay when a figure is missing."""
    made: list[Figure | None] = []
    for number, setting in enumerate(groups, start=1):
        made += [speed_figure(setting, number, level) for level in sorted({p.cell.concurrency for p in setting.points})]
        made += [load_figure(setting, number, reference), phase_figure(setting, number)]
        made += [position_figure(setting, number), length_figure(setting, number)]
        made += coverage_figures(setting, number)
    made.append(curves_figure(runs))
    return [figure for figure in made if figure is not None]
