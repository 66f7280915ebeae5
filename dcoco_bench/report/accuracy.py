"""The accuracy table: scored answers, and what speculation changes about them against vanilla's."""

from __future__ import annotations

from dcoco_bench.report.points import Point, Setting
from dcoco_bench.report.results import COLUMNS as RESULT_COLUMNS
from dcoco_bench.report.results import IDENTITY, identity
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.accuracy import accuracy, difference

CAPTION = (
    "Answers whose last closed \\boxed{{}} is equivalent to the suite's reference ({graders}), in percent. An answer "
    "without one, such as one cut off at the token limit, counts as wrong. One seed: 95 % Wilson interval; several: "
    "bootstrap over prompts. Difference: percentage points against vanilla's, paired by prompt, same run and streams. "
    "Greedy speculation leaves every answer as it is; sampled speculation leaves their distribution as it is, so that "
    "the difference should be near zero, not zero."
)
COLUMNS = (
    *(c for c in RESULT_COLUMNS if c.key in IDENTITY),
    Column("suite", "suite"),
    Column("concurrency", "streams"),
    Column("method", "method"),
    Column("accuracy", "accuracy %", 1, 100, interval=True),
    Column("difference", "difference, points", 1, 100, interval=True, sign=True),
    Column("unanswered", "no final answer"),
    Column("asked", "n"),
)


def accuracy_table(setting: Setting) -> Table | None:
    """None where nothing was scored."""
    scored = [p for p in setting.points if any(log.scores for log in p.usable)]
    if not scored:
        return None
    graders = sorted({log.scores.grader for p in scored for log in p.usable if log.scores})
    caption = CAPTION.format(graders=", ".join(graders))
    table = Table("accuracy", f"Accuracy: {setting.title}", caption, COLUMNS)
    for point in scored:
        table.add(**identity(point), **_row(point))
    return table


def _row(point: Point) -> dict[str, Entry]:
    found = accuracy(point.usable)
    if found is None:
        return {}
    return {
        "accuracy": Entry.of(found.rate),
        "difference": _difference(point),
        "unanswered": Entry(found.unanswered),
        "asked": Entry(found.asked),
    }


def _difference(point: Point) -> Entry:
    if not point.drafts:
        return Entry(None, reason="is the baseline")
    usable = [log for log in point.baseline if log.unusable is None]
    return Entry.of(difference(point.usable, usable)) if usable else Entry(None, reason=point.no_baseline)
