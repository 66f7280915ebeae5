"""What a replayed request will answer and how its rounds will go: made up, or taken from a log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dcoco_bench.engines.base import FinishReason
from dcoco_bench.errors import UserError
from dcoco_bench.log import RequestRecord
from dcoco_bench.log_read import read_cell_record, read_requests, read_run
from dcoco_bench.log_store import REQUESTS_FILE, RUN_FILE
from dcoco_bench.method import MethodSpec


@dataclass(frozen=True)
class Trace:
    """Answer and rounds of one request. The rounds may be more than the answer needs."""

    output_ids: list[int]
    drafted: list[int]
    accepted: list[int]
    finish_reason: FinishReason

    def cut(self, max_tokens: int) -> Trace:
        if len(self.output_ids) <= max_tokens:
            return self
        return Trace(self.output_ids[:max_tokens], self.drafted, self.accepted, "length")


def load_traces(path: Path, method: str) -> dict[str, Trace]:
    """Traces by prompt hash, from the first cell of that method in a run, or from the one cell that was given.

    Raises UserError when nothing there belongs to the method or no request has known rounds.
    """
    traces: dict[str, Trace] = {}
    for record in _records(path, method):
        if record.finish_reason != "error" and record.output_ids and record.rounds is not None:
            trace = Trace(record.output_ids, record.rounds.drafted, record.rounds.accepted, record.finish_reason)
            traces.setdefault(record.prompt_sha, trace)
    if not traces:
        raise UserError(f"--engine-arg log={path}: no request of method {method!r} with known rounds; give another log")
    return traces


def _records(path: Path, method: str) -> list[RequestRecord]:
    if (path / RUN_FILE).is_file():
        for folder in read_run(path).cells:
            if folder.cell and MethodSpec.parse(folder.cell.method).name == method:
                return folder.requests
        return []
    file = path / REQUESTS_FILE if path.is_dir() else path
    if not file.is_file():
        raise UserError(f"--engine-arg log={path}: no such log; give a run folder, a cell folder or a {REQUESTS_FILE}")
    record = read_cell_record(file.parent)
    if record and MethodSpec.parse(record.cell.method).name != method:
        return []
    return read_requests(file).records
