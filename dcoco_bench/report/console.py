"""The short table that `run` and `demo` print: the main table's headline columns, drawn by rich."""

from __future__ import annotations

from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from dcoco_bench.log_read import Run
from dcoco_bench.report.points import Setting, points_of, settings
from dcoco_bench.report.results import COLUMNS, results_table
from dcoco_bench.report.table import BLANK, Entry, readable

HEADLINE = ("suite", "concurrency", "method", "per_stream_tps", "aggregate_tps", "speedup", "tau", "acceptance_rate")
TITLES = {
    "per_stream_tps": "TPS/stream",
    "aggregate_tps": "TPS all",
    "acceptance_rate": "acc. %",
}  # a terminal is narrow
COST = ("suite", "concurrency", "method", "round_time_s", "draft_s", "head_s", "verify_s", "other_s")
DEFINITIONS = "TPS/stream = Σ tokens / Σ latency; τ by round, delivered, target's token included"
BY_KEY = {c.key: c for c in COLUMNS}

Row = dict[str, Entry]


def summary_table(run: Run) -> Group:
    """Tables for every setting of the run, with remarks; print it with `rich.console.Console.print`."""
    return Group(*(part for setting in settings(points_of(run)) for part in _one(run, setting)))


def _one(run: Run, setting: Setting) -> list[RichTable | Text]:
    """The results, the cost of a step where the engine timed it, then the remarks on the rows."""
    rows = results_table(setting).rows
    parts: list[RichTable | Text] = [_table(f"{run.name}: {setting.title}", DEFINITIONS, rows, (*HEADLINE, "prompts"))]
    if any(not row.get(key, BLANK).missing for row in rows for key in COST[4:]):
        caption = "round = τ / TPS per stream; the phases are engine time per step, prefill excluded"
        parts.append(_table("Cost of a round", caption, rows, COST))
    if setting.sample:
        parts.append(Text("SAMPLE prompts written for this project: not results on the suites.", "bold"))
    return parts + [Text(f"  {_where(row)}: {remark}") for row in rows if (remark := _remark(row))]


def _table(title: str, caption: str, rows: list[Row], wanted: tuple[str, ...]) -> RichTable:
    table = RichTable(title=title, caption=caption, title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
    keys = [key for key in wanted if any(not row.get(key, BLANK).missing for row in rows)]
    for key in keys:
        name = key in ("suite", "method")
        align: Literal["left", "right"] = "left" if name else "right"
        width = 8 if name else None
        title = TITLES.get(key, BY_KEY[key].title)
        table.add_column(title, justify=align, no_wrap=not name, min_width=width, overflow="fold")
    for row in rows:
        table.add_row(*(Text(readable(BY_KEY[k], row.get(k, BLANK), interval=k == "speedup")) for k in keys))
    return table


def _where(row: Row) -> str:
    return f"{row['suite'].value} {row['method'].value} c={row['concurrency'].value}"


def _remark(row: Row) -> str:
    flagged, speedup = str(row.get("flags", BLANK).value or ""), row.get("speedup", BLANK)
    why = speedup.reason if speedup.missing and speedup.reason not in flagged else ""
    return "; ".join(filter(None, (flagged, why and f"no speed-up: {why}")))
