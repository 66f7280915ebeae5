"""The table of `run --dry-run`: the cells to come. (`report.console` draws those that are done.)"""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from dcoco_bench.estimate import CellEstimate
from dcoco_bench.plan import Plan
from dcoco_bench.progress import duration


def _mode(thinking: bool) -> str:
    return "on" if thinking else "off"


def dry_run_table(plan: Plan, guess: Mapping[str, CellEstimate]) -> Table:
    total = duration(sum(e.seconds for e in guess.values()))
    tokens = sum(e.tokens for e in guess.values())
    title = f"{len(plan.cells)} cells, at most {tokens:,} tokens, roughly {total} (without warm-up and loading)"
    table = Table(title=title, title_justify="left")
    for name in ("cell", "backbone", "suite", "method", "T", "think", "seed"):
        table.add_column(name, overflow="fold")
    for name in ("conc", "requests", "tokens ≤", "time ≲"):
        table.add_column(name, justify="right")
    table.add_column("speed from")
    for cell in plan.cells:
        e = guess[cell.id]
        table.add_row(
            cell.id,
            cell.backbone,
            cell.suite,
            cell.method,
            f"{cell.sampling.temperature:g}",
            _mode(cell.thinking),
            str(cell.seed),
            str(cell.concurrency),
            f"{e.requests:,}",
            f"{e.tokens:,}",
            duration(e.seconds),
            e.basis,
        )
    return table
