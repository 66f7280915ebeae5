"""The short table that `run` and `demo` print: the main table's headline columns, drawn by rich."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from dcoco_bench.log_read import Run
from dcoco_bench.report.points import Setting, points_of, settings
from dcoco_bench.report.results import COLUMNS, results_table
from dcoco_bench.report.table import BLANK, readable

HEADLINE = ("suite", "concurrency", "method", "per_stream_tps", "aggregate_tps", "speedup", "tau", "acceptance_rate")
PHASES = ("draft_s", "head_s", "verify_s", "other_s")
WITH_INTERVAL = ("speedup", "tau")


def summary_table(run: Run) -> Group:
    """One rich table for every setting of the run; print it with `rich.console.Console.print`."""
    return Group(*(_one(run, setting) for setting in settings(points_of(run))))


def _one(run: Run, setting: Setting) -> RichTable:
    rows = results_table(setting).rows
    columns = [c for key in (*HEADLINE, *PHASES, "prompts") for c in COLUMNS if c.key == key]
    columns = [c for c in columns if any(not row.get(c.key, BLANK).missing for row in rows)]
    note = (
        "TPS per stream = Σ tokens / Σ latency; τ by round, delivered, target's token included; phases in ms per step"
    )
    if setting.sample:
        note = "SAMPLE prompts written for this project, not the suites. " + note
    table = RichTable(title=f"{run.name}: {setting.title}", caption=note)
    for column in columns:
        table.add_column(column.title, justify="left" if column.key in ("suite", "method") else "right")
    table.add_column("remarks")
    for row in rows:
        texts = [readable(c, row.get(c.key, BLANK), c.key in WITH_INTERVAL) for c in columns]
        remarks = [str(row.get("flags", BLANK).value or "")]
        speedup = row.get("speedup", BLANK)
        if speedup.missing and speedup.reason not in remarks[0]:
            remarks.append(f"no speed-up: {speedup.reason}")
        table.add_row(*(Text(t) for t in texts), Text("; ".join(filter(None, remarks))))
    return table
