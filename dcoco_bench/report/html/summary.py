"""Who wins where, by how much, how sure: in plain words, from the same numbers as the tables."""

from __future__ import annotations

from collections.abc import Sequence

from dcoco_bench.report.means import mean_of
from dcoco_bench.report.points import Setting
from dcoco_bench.report.results import speedup
from dcoco_bench.report.table import Entry
from dcoco_bench.report.versus import REFERENCE, mean_ratio


def summary(groups: Sequence[Setting], reference: str = REFERENCE) -> list[str]:
    """Sentences; a difference whose interval holds 1 is called none."""
    return [line for setting in groups for line in _setting(setting, reference)] or ["Nothing was measured."]


def _setting(setting: Setting, reference: str) -> list[str]:
    lines = []
    for level in sorted({p.cell.concurrency for p in setting.points}):
        speeds = {}
        for method in dict.fromkeys(p.cell.method for p in setting.points if p.drafts):
            mine = [p for p in setting.points if (p.cell.method, p.cell.concurrency) == (method, level) and p.whole]
            found = mean_of([speedup(p) for p in mine])
            if isinstance(found.value, float):
                speeds[method] = found
        where = f"{setting.title}, {level} stream{'s' if level > 1 else ''}"
        if not speeds:
            continue
        best = max(speeds, key=lambda m: float(speeds[m].value or 0))
        lines.append(f"{where}: {best} is fastest, {_times(speeds[best])} of vanilla's speed.")
        for method in speeds:
            if method == reference or reference not in speeds:
                continue
            tau, tps = (mean_ratio(setting, method, level, key, reference) for key in ("tau", "tps"))
            lines.append(
                f"{where}: {method} against {reference}: accepted length {_change(tau)}, throughput {_change(tps)}."
            )
    return lines


def _times(entry: Entry) -> str:
    return f"{entry.value:.2f} times" + (f" ({entry.lo:.2f} to {entry.hi:.2f})" if entry.lo is not None else "")


def _change(entry: Entry) -> str:
    """`4.1 % higher (2.0 to 6.1)`, or that no difference was found."""
    if not isinstance(entry.value, float):
        return "not comparable"
    if entry.lo is None or entry.hi is None:
        return f"{100 * (entry.value - 1):+.1f} % (no interval)"
    if entry.lo <= 1 <= entry.hi:
        return f"no clear difference ({100 * (entry.lo - 1):+.1f} to {100 * (entry.hi - 1):+.1f} %)"
    word = "higher" if entry.value > 1 else "lower"
    low, high = sorted((abs(entry.lo - 1), abs(entry.hi - 1)))
    return f"{100 * abs(entry.value - 1):.1f} % {word} ({100 * low:.1f} to {100 * high:.1f})"
