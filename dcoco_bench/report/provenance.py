"""The provenance section: what ran, where, on which prompts, straight from the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dcoco_bench.log_read import Run
from dcoco_bench.report.points import Point


def provenance(run: Run, points: list[Point]) -> str:
    """A Markdown list. Suites show version, prompt hash and origin; a run on mixed hardware is called out."""
    lines = [f"### {run.name}", "", f"* command: `{' '.join(run.record.command)}`", f"* created: {run.record.created}"]
    lines += [f"* {key}: {value}" for key, value in _flat(run.record.provenance)]
    suites = {}
    for log in (log for p in points for log in p.logs):
        s = log.record.suite
        suites[(s.name, s.version, s.origin, s.prompt_hash)] = s
    for s in suites.values():
        label = "SAMPLE prompts of this project, not the suite" if s.origin == "sample" else f"from {s.origin}"
        lines.append(f"* suite {s.name}: version {s.version}, {s.prompts} prompts, hash {s.prompt_hash}, {label}")
    names = [name for name, *_ in suites]
    for name in sorted({n for n in names if names.count(n) > 1}):
        lines.append(f"* **suite {name} differs between cells of this run: they are not compared with each other**")
    if len({p.hardware for p in points if p.logs}) > 1:
        lines.append("* **cells of this run were measured on different hardware: they are in separate tables**")
    lines += [f"* note: {problem}" for problem in run.problems]
    return "\n".join([*lines, ""])


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key in sorted(values):
        value = values[key]
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
            yield f"{prefix}{key}", text
