"""A verdict for people, for programs and for CI: a table, JSON, JUnit XML and Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict
from xml.etree import ElementTree

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from dcoco_bench.gate.checks import Check, Outcome
from dcoco_bench.gate.gate import EXIT, Verdict

STYLE = {Outcome.PASS: "green", Outcome.REGRESSION: "bold red", Outcome.UNCLEAR: "yellow", Outcome.NO_BASELINE: "cyan"}
SHARES = ("mismatch", "failures")


def title(verdict: Verdict) -> str:
    return f"{verdict.current} against {verdict.baseline}: {verdict.outcome}"


def multiplicity(verdict: Verdict) -> str:
    """What reading many intervals at once means. A check fails only where its interval lies beyond the limit."""
    count = sum(c.estimate.lo is not None and c.metric not in SHARES for c in verdict.checks)
    return (
        f"{count} intervals at 95 %: were every true value just on its limit, about {count * 0.025:.1f} would fail by "
        "chance; at no change, far fewer. Read the pooled rows first."
    )


def table(verdict: Verdict) -> Table:
    """For the terminal: what did not pass, and what is pooled over suites."""
    rows = [c for c in verdict.checks if c.outcome is not Outcome.PASS or c.pooled]
    passed = sum(c.outcome is Outcome.PASS for c in verdict.checks)
    caption = f"{passed} of {len(verdict.checks)} checks passed. {multiplicity(verdict)}"
    made = Table(title=title(verdict), caption=caption, box=SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for name in ("cell", "check", "measured", "limit", "outcome", ""):
        made.add_column(name, overflow="fold")
    for check in rows:
        outcome = Text(check.outcome, STYLE[check.outcome])
        made.add_row(check.where, check.metric, measured(check), limit(check), outcome, check.note)
    return made


def measured(check: Check) -> str:
    e = check.estimate
    if e.value is None:
        return "-"
    scale, digits, unit = (100, 1, " %") if check.metric in SHARES else (1, 3, "")
    shown = f"{e.value * scale:.{digits}f}{unit}"
    return shown if e.lo is None or e.hi is None else f"{shown} [{e.lo * scale:.{digits}f}, {e.hi * scale:.{digits}f}]"


def limit(check: Check) -> str:
    return f"≤ {check.limit:.1%}" if check.metric in SHARES else f"≥ {check.limit:.3f}"


def as_json(verdict: Verdict) -> str:
    return json.dumps(
        {
            "baseline": verdict.baseline,
            "current": verdict.current,
            "outcome": verdict.outcome,
            "exit_code": EXIT[verdict.outcome],
            "limits": asdict(verdict.limits),
            "checks": [asdict(check) for check in verdict.checks],
        },
        indent=1,
    )


def as_junit(verdict: Verdict) -> str:
    """A test case a check. What could not be told, or had no baseline, is `skipped`; the exit code says it too."""
    failed = [c for c in verdict.checks if c.outcome is Outcome.REGRESSION]
    skipped = [c for c in verdict.checks if c.outcome in (Outcome.UNCLEAR, Outcome.NO_BASELINE)]
    suite = ElementTree.Element(
        "testsuite",
        name=f"dcoco-bench gate: {title(verdict)}",
        tests=str(len(verdict.checks)),
        failures=str(len(failed)),
        skipped=str(len(skipped)),
    )
    for check in verdict.checks:
        case = ElementTree.SubElement(suite, "testcase", classname=check.where, name=check.metric)
        message = f"{measured(check)}, limit {limit(check)}. {check.note}".strip()
        if check in failed:
            ElementTree.SubElement(case, "failure", message=message)
        elif check in skipped:
            ElementTree.SubElement(case, "skipped", message=f"{check.outcome}: {message}")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def as_markdown(verdict: Verdict) -> str:
    """For a step summary: the checks that did not pass, then how many did."""
    lines = [f"### dcoco-bench gate: {title(verdict)}", ""]
    rest = [c for c in verdict.checks if c.outcome is not Outcome.PASS]
    if rest:
        lines += ["| cell | check | measured | limit | outcome | |", "|---|---|---|---|---|---|"]
        for c in rest:
            row = (c.where, c.metric, measured(c), limit(c), f"**{c.outcome}**", c.note)
            lines.append("| " + " | ".join(str(part).replace("|", "\\|") for part in row) + " |")
    lines += ["", f"{len(verdict.checks) - len(rest)} of {len(verdict.checks)} checks passed. {multiplicity(verdict)}"]
    return "\n".join(lines) + "\n"
