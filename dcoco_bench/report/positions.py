"""Acceptance by draft position, marginal and conditional, each under its own name (C10)."""

from __future__ import annotations

import math

from dcoco_bench.report.points import Setting
from dcoco_bench.report.results import COLUMNS as RESULT_COLUMNS
from dcoco_bench.report.results import IDENTITY, identity
from dcoco_bench.report.table import Column, Entry, Table

CAPTION = (
    "Zero-based draft positions, in percent. `marginal`: rounds that accepted position i / all rounds; it sums to raw "
    "τ - 1. `conditional`: rounds that accepted position i / rounds that reached it, every earlier draft having been "
    "accepted. Not comparable across draft lengths: with more drafted tokens, rounds start at harder places."
)
COVERAGE_CAPTION = (
    "Percent of draft slots (1 = first) whose k best candidates hold the token that was committed there; all slots "
    "count, reached or not. τ argmax: every slot proposes its own best candidate. τ oracle: it proposes the committed "
    "token whenever that is among its candidates. Recoverable: share of wrong top-1 slots whose answer is among the "
    "candidates. No intervals yet."
)
_WHERE = (
    *(c for c in RESULT_COLUMNS if c.key in IDENTITY),
    Column("suite", "suite"),
    Column("concurrency", "streams"),
    Column("method", "method"),
)


def positions_table(setting: Setting, width: int) -> Table | None:
    """None where nothing was drafted. `width`: positions of the widest draft in the report, one column each."""
    positions = tuple(Column(f"position_{i}", str(i), 1, 100) for i in range(width))
    columns = (*_WHERE, Column("definition", "definition"), *positions)
    table = Table("positions", f"Acceptance by position: {setting.title}", CAPTION, columns)
    for point in setting.points:
        a = point.pooled
        if a is None:
            continue
        for name, rates in (("marginal", a.marginal), ("conditional", a.conditional)):
            entries = {
                f"position_{i}": Entry(rate, reason="" if rate is not None else "no round reached it")
                for i, rate in enumerate(rates)
            }
            table.add(**identity(point), definition=Entry(name), **entries)
    return table if table.rows else None


def draft_width(settings: list[Setting]) -> int:
    return max((len(a.marginal) for s in settings for p in s.points if (a := p.pooled) is not None), default=0)


def coverage_table(setting: Setting, depth: int) -> Table | None:
    """None where no candidates were recorded. `depth`: most candidates per slot in the report."""
    by_k = tuple(Column(f"top_{k}", f"top-{k}", 1, 100) for k in range(1, depth + 1))
    extra = (
        Column("recoverable", "recoverable %", 1, 100),
        Column("argmax_tau", "τ argmax", 2),
        Column("oracle_tau", "τ oracle", 2),
        Column("rounds", "rounds"),
    )
    table = Table(
        "coverage",
        f"Candidate coverage: {setting.title}",
        COVERAGE_CAPTION,
        (*_WHERE, Column("slot", "slot"), *by_k, *extra),
    )
    for point in setting.points:
        c = point.coverage
        if c is None:
            continue
        block = {f"top_{k + 1}": Entry(float(v)) for k, v in enumerate(c.block_mean)}
        block |= {
            "recoverable": Entry(c.recoverable),
            "argmax_tau": Entry(c.argmax_tau),
            "oracle_tau": Entry(c.oracle_tau),
            "rounds": Entry(c.rounds),
        }
        table.add(**identity(point), slot=Entry("block mean"), **block)
        for i, row in enumerate(c.by_slot):
            values = {f"top_{k + 1}": Entry(None if math.isnan(v) else float(v)) for k, v in enumerate(row)}
            table.add(**identity(point), slot=Entry(i + 1), rounds=Entry(int(c.slots[i])), **values)
    return table if table.rows else None


def candidate_depth(settings: list[Setting]) -> int:
    found = (c.by_slot.shape[1] for s in settings for p in s.points if (c := p.coverage) is not None)
    return max(found, default=0)
