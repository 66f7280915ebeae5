"""One cell: warm up, play what is not finished yet, write each request, and sum up in a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dcoco_bench.cells import Cell
from dcoco_bench.dialogue import PlayedPrompt
from dcoco_bench.engines.base import Engine
from dcoco_bench.errors import UserError
from dcoco_bench.load import Load, Settings
from dcoco_bench.log import TAU_DEFINITION, CellRecord, RequestRecord
from dcoco_bench.log_read import RequestLog, read_requests
from dcoco_bench.log_store import REQUESTS_FILE, LogWriter, cell_dir
from dcoco_bench.progress import RunProgress
from dcoco_bench.prompts import PromptSet, prompt_sha
from dcoco_bench.provenance import utc_now
from dcoco_bench.warmup import warm_up

DEFINITIONS = {
    "tau": TAU_DEFINITION,
    "per_stream_tps": "sum(output tokens)/sum(end-start)",
    "aggregate_tps": "sum(output tokens)/sum(walls)",
    "start": "send of the request, waiting included",
    "wall": "first submit to last finish of a segment; of a killed segment, to the last request it logged",
    "counters": "engine deltas over the measured part of the last segment",
}


@dataclass
class CellJob:
    """A cell with all that it takes to measure it, and what a former go left in its log."""

    cell: Cell
    prompts: PromptSet
    tokenizer: Any
    max_context: int
    run_dir: Path
    provenance: Mapping[str, Any]

    @cached_property
    def before(self) -> RequestLog:
        return read_requests(cell_dir(self.run_dir, self.cell.id) / REQUESTS_FILE)

    @property
    def segment(self) -> int:
        return max(self.before.walls, default=-1) + 1

    @cached_property
    def dialogues(self) -> list[PlayedPrompt]:
        c = self.cell
        return [
            PlayedPrompt(i, p.id, list(p.turns), self.tokenizer, c.thinking, c.turns)
            for i, p in enumerate(self.prompts.prompts)
        ]

    @cached_property
    def finished(self) -> set[int]:
        """Places of the prompts whose every turn was answered. The others are played again from their first turn."""
        answered: dict[int, int] = {}
        for r in self.before.records:
            if r.finish_reason != "error" and r.error is None:
                answered[r.index] = answered.get(r.index, 0) + 1
        return {d.index for d in self.dialogues if answered.get(d.index, 0) == d.turns}

    def record(self, status: str, **fields: Any) -> CellRecord:
        base: dict[str, Any] = {
            "id": self.cell.id,
            "cell": self.cell,
            "status": status,
            "suite": self.prompts.record(),
            "walls": [],
            "counters": {},
            "effective": {},
            "warmup": {},
            "definitions": DEFINITIONS,
        }
        provenance = {**self.provenance, "ended": utc_now()}
        return CellRecord(**{**base, **fields, "provenance": provenance})

    def failed(self, reason: str, progress: RunProgress, number: int) -> CellRecord:
        """The record of a cell that could not even start."""
        progress.cell_started(number, self.cell.label, sum(d.turns for d in self.dialogues), 0)
        return self.record("failed", error=reason, walls=[w for _, w in sorted(self.before.walls.items())])


def measure(job: CellJob, engine: Engine, progress: RunProgress, number: int) -> CellRecord:
    """Play the cell on an open engine. An exception of the engine gives a failed record; UserError passes through."""
    cell, segment = job.cell, job.segment
    todo = [d for d in job.dialogues if d.index not in job.finished]
    kept = sum(d.turns for d in job.dialogues if d.index in job.finished)
    progress.cell_started(number, cell.label, kept + sum(d.turns for d in todo), kept)
    for problem in job.before.problems:
        progress.note(problem)
    walls, error = dict(job.before.walls), None
    facts: dict[str, Any] = {}
    settings = Settings(cell.concurrency, cell.max_tokens, job.max_context, cell.sampling, cell.seed, segment)

    with LogWriter(job.run_dir, cell.id) as log:

        def keep(records: list[RequestRecord]) -> None:
            log.append(records)
            progress.advance(len(records), sum(len(r.output_ids) for r in records))

        load = Load(
            engine,
            settings,
            sink=keep,
            tick=progress.tick,
            sha=prompt_sha,
            retries=lambda i: job.before.failures.get(i, 0),
        )
        try:
            facts["effective"] = engine.effective_config()
            if todo:
                facts["warmup"] = warm_up(engine, settings, job.tokenizer, job.prompts, cell.thinking)
                start = engine.counters()
                load.run(todo)
                facts["counters"] = counters_between(start, engine.counters())
                facts["effective"] = engine.effective_config()
        except UserError:
            raise
        except Exception as crash:  # whatever an engine dies of is the cell's failure, not the run's
            text = (str(crash).strip() or "no message").splitlines()[0]
            error = f"the engine failed: {type(crash).__name__}: {text}"
        if load.wall:
            walls[segment] = load.wall
    record = job.record("ok", walls=[wall for _, wall in sorted(walls.items())], **facts)
    reason = error or invalid(record, read_requests(cell_dir(job.run_dir, cell.id) / REQUESTS_FILE).records)
    return record.model_copy(update={"status": "failed", "error": reason}) if reason else record


def invalid(record: CellRecord, requests: list[RequestRecord]) -> str | None:
    """Why the cell is no result: too few prompts answered, or counts that contradict each other."""
    from dcoco_bench.stats.cells import SUCCESS_FLOOR, CellLog

    log = CellLog(record, requests)
    total = record.suite.prompts
    if log.answered < SUCCESS_FLOOR * total:
        first = next((r.error for r in requests if r.error), "no reason given")
        return f"only {log.answered} of {total} prompts answered (floor {SUCCESS_FLOOR:.0%}); first error: {first}"
    return f"the log contradicts itself: {log.broken[0]}" if log.broken else None


def counters_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Deltas. A counter that fell was reset (an engine restart): its delta is not known and is left out."""
    return {k: v - before.get(k, 0.0) for k, v in after.items() if v >= before.get(k, 0.0)}
