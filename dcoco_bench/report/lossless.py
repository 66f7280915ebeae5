"""The losslessness table: greedy output against vanilla's, beside a second vanilla run as the control."""

from __future__ import annotations

from dcoco_bench.report.points import Point, Setting
from dcoco_bench.report.results import COLUMNS as RESULT_COLUMNS
from dcoco_bench.report.results import IDENTITY, identity
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.cells import BASELINE
from dcoco_bench.stats.losslessness import Match, match

CAPTION = (
    "Prompts whose output token ids equal vanilla's (same run and streams) over all turns, in percent with a 95 % "
    "Wilson interval. Control: a second vanilla run against the first; two plain runs may differ, so judge a match "
    "rate against it. Earliest divergence: smallest output index at which a prompt parts from vanilla, and the "
    "target's top-1 minus top-2 logit there (near 0 is a tie that rounding decides)."
)
COLUMNS = (
    *(c for c in RESULT_COLUMNS if c.key in IDENTITY),
    Column("suite", "suite"),
    Column("concurrency", "streams"),
    Column("method", "method"),
    Column("match_rate", "match %", 1, 100, interval=True),
    Column("control_rate", "control %", 1, 100, interval=True),
    Column("prompts", "n"),
    Column("excluded", "left out"),
    Column("first_divergence", "earliest divergence"),
    Column("margin", "margin", 4),
    Column("diverging_prompts", "", shown=False),
)
NO_CONTROL = f"no second {BASELINE} run; add {BASELINE}@repeat=1 to --method"


def lossless_table(setting: Setting) -> Table | None:
    """None unless the setting is greedy, answers for real, and something can be compared with vanilla."""
    if not setting.points[0].cell.sampling.greedy or any(map(synthetic, setting.points)):
        return None
    table = Table("losslessness", f"Losslessness: {setting.title}", CAPTION, COLUMNS)
    for point in setting.points:
        if point.is_reference or not any(p.drafts for p in setting.points):
            continue
        table.add(**identity(point), **_row(point, setting))
    return table if table.rows else None


def synthetic(point: Point) -> bool:
    """Its rounds accepted by a given tau: the output is no answer."""
    return any(log.record.effective.get("synthetic_tau") is not None for log in point.logs)


def compare(point: Point) -> tuple[Match | None, str]:
    """Match of a point with its baseline, or why there is none."""
    if not point.shown:
        return None, point.blank
    usable = [log for log in point.baseline if log.unusable is None]
    if not usable:
        return None, point.no_baseline
    if usable[0].record.suite.prompt_hash != point.shown[0].record.suite.prompt_hash:
        return None, "vanilla decoded other prompts"
    return match(point.shown[0], usable[0]), ""


def _row(point: Point, setting: Setting) -> dict[str, Entry]:
    found, reason = compare(point)
    if found is None:
        return {"match_rate": Entry(None, reason=reason)}
    first = found.earliest
    return {
        "match_rate": Entry.of(found.rate),
        "control_rate": _control(point, setting),
        "prompts": Entry(found.prompts),
        "excluded": Entry(found.excluded),
        "first_divergence": Entry(f"{first.prompt_id} turn {first.turn} token {first.index}" if first else "none"),
        "margin": Entry(first.margin if first else None, reason=_no_margin(found)),
        "diverging_prompts": Entry(" ".join(f"{d.prompt_id}/{d.turn}@{d.index}" for d in found.divergences)),
    }


def _no_margin(found: Match) -> str:
    missing = found.earliest is not None and found.earliest.margin is None
    return "margins not recorded; run with --record-candidates" if missing else ""


def _control(point: Point, setting: Setting) -> Entry:
    """The match rate of the repeated vanilla cell at the same suite and concurrency."""
    if not point.drafts:
        return Entry(None, reason="is the control")
    same = (point.cell.suite, point.cell.concurrency)
    for other in setting.points:
        if not other.drafts and not other.is_reference and (other.cell.suite, other.cell.concurrency) == same:
            found, reason = compare(other)
            return Entry.of(found.rate) if found else Entry(None, reason=reason)
    return Entry(None, reason=NO_CONTROL)
