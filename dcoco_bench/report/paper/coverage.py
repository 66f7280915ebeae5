"""The coverage table: share of draft slots whose k best candidates hold the committed token, with intervals."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import numpy as np

from dcoco_bench.report.means import mean_of
from dcoco_bench.report.paper.layout import COVERAGE_K
from dcoco_bench.report.paper.missing import command, streams
from dcoco_bench.report.paper.modes import Mode
from dcoco_bench.report.paper.reference import find
from dcoco_bench.report.paper.slots import cells_of
from dcoco_bench.report.paper.where import WHERE, paper_where, where
from dcoco_bench.report.points import Point
from dcoco_bench.report.table import Column, Entry, Missing, Table
from dcoco_bench.stats.cells import is_baseline
from dcoco_bench.stats.coverage import Coverage, coverage_draws
from dcoco_bench.stats.intervals import Draws, estimate, mean_same_prompts
from dcoco_bench.stats.paired import Result

CAPTION = (
    "Percent of draft slots (1 = first) whose k largest unary logits hold the token that was committed there, T=0; all "
    "slots count, reached or not; slots past the end of the output are left out. Block mean: unweighted over slots. "
    "Recoverable: share of the slots with a wrong top-1 whose answer is among the candidates. Unweighted mean over "
    "{suites}. In brackets: 95 % BCa bootstrap interval over prompts. Rows called paper hold the paper's own numbers."
)


def coverage_tables(mode: Mode, paper: bool) -> list[Table]:
    """One for every drafter that recorded candidates at T=0."""
    found = []
    for method in mode.methods:
        points = [
            point
            for at in mode.measured
            if at.method == method and at.sampling.greedy and at.concurrency == mode.main_level
            if (point := mode.point(at)) is not None and point.whole and point.coverage is not None
        ]
        if points:
            found.append(_table(mode, method, points, paper))
    return found


def no_coverage(mode: Mode) -> Missing | None:
    """What would fill the table, where no drafter recorded its candidates."""
    hot = [s for s in mode.samplings if s.greedy]
    drafters = [method for method in mode.methods if not is_baseline(method)]
    if not hot or not drafters:
        return None
    words = command(mode, hot[0], [mode.main_level], mode.suites, drafters[:1])
    return Missing("Coverage table: no candidates were recorded", shlex.join([*words, "--record-candidates"]))


def _table(mode: Mode, method: str, points: list[Point], paper: bool) -> Table:
    covers = [(p, c) for p in points if (c := p.coverage) is not None]
    depth = min(c.by_slot.shape[1] for _, c in covers)
    width = max(c.by_slot.shape[0] for _, c in covers)
    ks = [k for k in COVERAGE_K if k <= depth]
    names = ", ".join(p.suite for p, _ in covers)
    title = f"Coverage table: {method}. {mode.title}, {streams(mode.main_level)}"
    columns = (
        *WHERE,
        Column("method", "", shown=False),
        Column("slot", "slot"),
        *(Column(f"top_{k}", f"top-{k} %", 1, 100, interval=True) for k in ks),
    )
    table = Table("paper-coverage", title, CAPTION.format(suites=names), columns, notes=mode.notes)
    shared = {**where(mode), "method": Entry(method)}

    def row(name: str, cell: Callable[[Point, Coverage, int], Draws]) -> None:
        entries = {}
        for k in ks:
            draws = [cell(p, c, k) for p, c in covers]
            mean = mean_of([Result(d, estimate(d)) for d in draws])
            entries[f"top_{k}"] = Entry(**{**mean.__dict__, "cells": cells_of(p for p, _ in covers)})
        table.add(**shared, slot=Entry(name), **entries)
        if paper:
            _add_paper(table, name if name != str(width) else "last", ks)

    for slot in range(width):
        row(str(slot + 1), lambda p, c, k, i=slot: coverage_draws(c, _label(p), i, k))  # type: ignore[misc]
    row("block mean", _block)
    row("recoverable", lambda p, c, k: _recoverable(p, c, k))
    return table


def _label(point: Point) -> str:
    return f"{point.cell.suite} {point.shown[0].record.suite.prompt_hash}"


def _block(point: Point, c: Coverage, k: int) -> Draws:
    slots = [i for i in range(c.by_slot.shape[0]) if c.slots[i]]
    return mean_same_prompts([coverage_draws(c, _label(point), i, k) for i in slots])


def _recoverable(point: Point, c: Coverage, k: int) -> Draws:
    one, top = _block(point, c, 1), _block(point, c, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        blocks = tuple((t - o) / (1 - o) for t, o in zip(top.left_out, one.left_out, strict=True))
        value = (top.value - one.value) / (1 - one.value) if one.value < 1 else float("nan")
        return Draws(value, (top.resampled - one.resampled) / (1 - one.resampled), blocks)


def _add_paper(table: Table, slot: str, ks: list[int]) -> None:
    metric = "recoverable" if slot == "recoverable" else "coverage"
    known = find(table="coverage", metric=metric, slot="" if metric == "recoverable" else slot)
    entries = {f"top_{v.k}": v.entry for v in known if v.k in ks}
    if entries:
        table.add(**paper_where(known[0]), slot=Entry(f"paper: {slot}"), **entries)
