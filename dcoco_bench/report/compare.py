"""Two runs side by side, paired by prompt. What cannot be compared is refused, with the reason."""

from __future__ import annotations

from dcoco_bench.errors import UserError
from dcoco_bench.gate.baseline import mismatch
from dcoco_bench.log_read import Run
from dcoco_bench.report.points import Point, points_of
from dcoco_bench.report.results import identity
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.cells import without_seed
from dcoco_bench.stats.losslessness import match
from dcoco_bench.stats.paired import Metric, paired_ratio

CAPTION = (
    "Ratios of {a} to {b}, over the requests that succeeded in both, paired by prompt; 95 % BCa bootstrap intervals. τ "
    "and TPS per stream: above 1 is better in {a}; round (τ / TPS): below 1 is cheaper. Same answers: greedy outputs "
    "that are equal token for token. Cells are the same in all but their engine, its arguments and its dtype."
)
COLUMNS = (
    Column("suite", "suite"),
    Column("concurrency", "streams"),
    Column("method", "method"),
    Column("temperature", "T", 1),
    Column("tau", "τ ratio", 3, interval=True),
    Column("tps", "TPS ratio", 3, interval=True),
    Column("round", "round ratio", 3, interval=True),
    Column("same", "same answers %", 1, 100, interval=True),
    Column("prompts", "n"),
    Column("differs", "differs in"),
)
METRICS: dict[str, Metric] = {"tau": "tau", "tps": "per_stream_tps", "round": "round_time"}
FREE = {"engine": "any", "engine_args": (), "dtype": "any"}  # two runs may differ in these, and the row says so


def compare(ours: Run, theirs: Run) -> Table:
    """Raises UserError where the runs have no cell in common."""
    table = Table("compare", f"{ours.name} against {theirs.name}", CAPTION.format(a=ours.name, b=theirs.name), COLUMNS)
    there: dict[str, list[Point]] = {}
    for point in points_of(theirs):
        there.setdefault(_key(point), []).append(point)
    for point in points_of(ours):
        partners = there.get(_key(point), [])
        same = [p for p in partners if without_seed(p.cell) == without_seed(point.cell)]
        for partner in same or partners:
            table.add(**_row(point, partner))
    if not table.rows:
        raise UserError(
            f"{ours.name} and {theirs.name} have no cell in common: backbone, method, suite, streams, sampling, "
            "thinking, turns, token limit and number of prompts must be the same"
        )
    return table


def _key(point: Point) -> str:
    return without_seed(point.cell.model_copy(update=FREE))


def _row(ours: Point, theirs: Point) -> dict[str, Entry]:
    shown = {k: v for k, v in identity(ours).items() if k in {c.key for c in COLUMNS}}
    row = shown | {"differs": Entry(", ".join(k for k in FREE if getattr(ours.cell, k) != getattr(theirs.cell, k)))}
    for key, metric in METRICS.items():
        reason = mismatch(ours, theirs, timed=False) or (_other_machine(ours, theirs) if key != "tau" else "")
        row[key] = Entry(None, reason=reason) if reason else Entry.of(paired_ratio(ours.shown, theirs.shown, metric)[1])
    return row | _answers(ours, theirs)


def _other_machine(ours: Point, theirs: Point) -> str:
    if ours.hardware != theirs.hardware:
        return f"times of other hardware are not compared: {ours.hardware} against {theirs.hardware}"
    return "one of them has simulated acceptance" if ours.simulated != theirs.simulated else ""


def _answers(ours: Point, theirs: Point) -> dict[str, Entry]:
    if not ours.cell.sampling.greedy:
        return {"same": Entry(None, reason="sampled answers differ by their draws")}
    if reason := mismatch(ours, theirs, timed=False):
        return {"same": Entry(None, reason=reason)}
    found = match(ours.shown[0], theirs.shown[0])
    return {"same": Entry.of(found.rate), "prompts": Entry(found.prompts)}
