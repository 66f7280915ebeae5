"""All tables of the paper that a log can fill, and what would fill the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dcoco_bench.report.paper.budget import COMMAND, HOW, budget_table
from dcoco_bench.report.paper.concurrency import LEVELS, concurrency_table
from dcoco_bench.report.paper.coverage import coverage_tables, no_coverage
from dcoco_bench.report.paper.layout import SUITE_TABLES, SuiteTable
from dcoco_bench.report.paper.missing import missing
from dcoco_bench.report.paper.modes import Address, Mode, modes_of
from dcoco_bench.report.paper.overview import overview_table
from dcoco_bench.report.paper.suite_tables import applies, suite_table
from dcoco_bench.report.points import Point
from dcoco_bench.report.table import Missing, Table
from dcoco_bench.stats.cells import is_baseline


@dataclass(frozen=True)
class PaperTables:
    tables: list[Table]
    not_run: list[Missing]  # tables for which the logs hold nothing


def paper_tables(points: Sequence[Point], paper: bool = True) -> PaperTables:
    """From the points of all runs, older runs first. `paper=False` leaves out the rows of the paper's own values.

    Tables come in the paper's order; of one table, the modes in the order of the log.
    """
    modes = [m for m in modes_of(points) if any(not is_baseline(method) for method in m.methods)]
    made: list[Table] = []
    absent: list[Missing] = []
    for layout in SUITE_TABLES[:1]:
        made += _suite_tables(modes, layout, paper, absent)
    machines: dict[tuple[str, ...], list[Mode]] = {}
    for mode in modes:
        machines.setdefault(mode.machine, []).append(mode)
    made += [overview_table(group) for group in machines.values()]
    for layout in SUITE_TABLES[1:2]:
        made += _suite_tables(modes, layout, paper, absent)
    budgets = [table for mode in modes if (table := budget_table(mode)) is not None]
    made += budgets
    if not budgets:
        absent.append(Missing(HOW, COMMAND))
    for layout in SUITE_TABLES[2:]:
        made += _suite_tables(modes, layout, paper, absent)
    for mode in modes:
        table = concurrency_table(mode, paper)
        made += [table] if table else []
        absent += [] if table else _other_levels(mode)
        covered = coverage_tables(mode, paper)
        made += covered
        lacking = None if covered else no_coverage(mode)
        absent += [lacking] if lacking else []
    return PaperTables(made, list(dict.fromkeys(absent)))


def _suite_tables(modes: list[Mode], layout: SuiteTable, paper: bool, absent: list[Missing]) -> list[Table]:
    fitting = [mode for mode in modes if layout.thinking in (None, mode.cell.thinking)]
    if not fitting and modes:
        wish = "on" if layout.thinking else "off"
        absent.append(Missing(f"{layout.number}: no cell with thinking {wish}; add --thinking {wish} to a run"))
    for mode in fitting:
        if not applies(mode, layout):
            absent.extend(_whole_table(mode, layout))
    return [suite_table(mode, layout, paper) for mode in fitting if applies(mode, layout)]


def _whole_table(mode: Mode, layout: SuiteTable) -> list[Missing]:
    samplings = [s for s in mode.samplings if s.greedy or not layout.greedy_only]
    wanted = [
        Address(s, mode.main_level, suite, v.spec) for s in samplings for suite in mode.suites for v in layout.columns
    ]
    found = missing(mode, wanted, layout.columns, layout.beside == "speedup")
    return [Missing(f"{layout.number}: {m.what}", m.command) for m in found]


def _other_levels(mode: Mode) -> list[Missing]:
    wanted = [
        Address(s, level, suite, method)
        for s in mode.samplings
        for level in LEVELS
        for suite in mode.suites
        for method in mode.methods
    ]
    return [Missing(f"Concurrency table: {m.what}", m.command) for m in missing(mode, wanted, (), baseline=True)]
