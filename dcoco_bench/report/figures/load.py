"""The paper's Figure 3: what a corrector earns and what it keeps, against the load."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dcoco_bench.report.figures.figure import Figure
from dcoco_bench.report.figures.style import look
from dcoco_bench.report.points import Setting
from dcoco_bench.report.versus import REFERENCE, mean_ratio

CAPTION = (
    "Ratio to {reference} at the same load: accepted length τ (solid) and TPS per stream (dashed), unweighted mean "
    "over suites. The band between the two is what correcting costs; below 1.0 the corrector does not pay."
)


def load_figure(setting: Setting, number: int, reference: str = REFERENCE) -> Figure | None:
    """None where fewer than two loads, or no drafter beside the reference, were measured."""
    levels = sorted({p.cell.concurrency for p in setting.points})
    methods = list(dict.fromkeys(p.cell.method for p in setting.points if p.drafts and p.cell.method != reference))
    rows: list[dict[str, Any]] = []
    for method in methods:
        for level in levels:
            for metric in ("tau", "tps"):
                found = mean_ratio(setting, method, level, metric, reference)
                if found.value is not None:
                    where = {"method": method, "streams": level, "metric": metric}
                    rows.append({**where, "ratio": found.value, "lo": found.lo, "hi": found.hi})
    if len({row["streams"] for row in rows}) < 2:
        return None
    caption = CAPTION.format(reference=reference)
    return Figure(f"load-{number}", f"Against the load: {setting.title}", caption, rows, _draw)


def _draw(pyplot: Any, data: pd.DataFrame) -> Any:
    figure, axes = pyplot.subplots(figsize=(5.2, 3.6))
    methods = tuple(dict.fromkeys(data["method"]))
    for method in methods:
        mine, style = data[data["method"] == method], look(method, methods)
        tau, tps = (mine[mine["metric"] == m].set_index("streams")["ratio"] for m in ("tau", "tps"))
        shared = tau.index.intersection(tps.index)
        axes.plot(tau.index, tau, color=style.colour, marker=style.marker, linestyle="-", label=method)
        axes.plot(tps.index, tps, color=style.colour, marker=style.marker, linestyle="--", markerfacecolor="white")
        axes.fill_between(shared, tau[shared], tps[shared], color=style.colour, alpha=0.12, linewidth=0)
    axes.axhline(1.0, color="black", linewidth=0.8)
    levels = sorted(set(data["streams"]))
    axes.set_xscale("log", base=2)
    axes.set_xticks(levels, [str(level) for level in levels])
    axes.set_xlabel("streams")
    axes.set_ylabel("ratio (solid: τ, dashed: TPS)")
    axes.legend(loc="best")
    return figure
