"""Reading a run folder, also one that was killed half-way or comes from another version."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dcoco_bench.cells import Cell
from dcoco_bench.errors import UserError
from dcoco_bench.log import SCHEMA, CellRecord, RequestRecord, RunRecord, ScoreRecord
from dcoco_bench.log_store import CELL_FILE, REQUESTS_FILE, RUN_FILE, SCORES_FILE, cell_dir

R = TypeVar("R", bound=BaseModel)


@dataclass
class RequestLog:
    """A cell's request lines. `problems` are things to tell the reader; they did not stop the reading."""

    records: list[RequestRecord] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    walls: dict[int, float] = field(default_factory=dict)  # segment -> end of its last request, left-out lines included
    failures: dict[int, int] = field(default_factory=dict)  # place of a prompt -> its failed requests so far


@dataclass
class CellFolder:
    """One cell of a run. `record` is None while the cell is unfinished."""

    id: str
    record: CellRecord | None
    requests: list[RequestRecord]
    scores: ScoreRecord | None = None

    @property
    def cell(self) -> Cell | None:
        return self.record.cell if self.record else None

    @property
    def finished(self) -> bool:
        return self.record is not None and self.record.status == "ok"


@dataclass
class Run:
    """A run folder in memory: its cells in the order of `run.json`, unfinished ones included."""

    path: Path
    record: RunRecord
    cells: list[CellFolder]
    problems: list[str]

    @property
    def name(self) -> str:
        return self.record.name


def read_run(path: Path) -> Run:
    """Raises UserError on a folder that is no run, a newer schema, or a line that is corrupt in the middle of a log."""
    record = read_run_record(path)
    cells, problems = [], []
    for cell_id in record.cells:
        folder = cell_dir(path, cell_id)
        log = read_requests(folder / REQUESTS_FILE)
        cells.append(CellFolder(cell_id, read_cell_record(folder), log.records, _read_scores(folder)))
        problems += log.problems
        if cells[-1].record is None:
            problems.append(f"cell {cell_id} is unfinished; continue with: dcoco-bench run --resume")
    return Run(path, record, cells, problems)


def read_run_record(path: Path) -> RunRecord:
    file = path / RUN_FILE
    if not file.is_file():
        raise UserError(f"{path} is not a run folder (no {RUN_FILE} in it); give a folder that `dcoco-bench run` wrote")
    return _read_json(file, RunRecord)


def read_cell_record(folder: Path) -> CellRecord | None:
    file = folder / CELL_FILE
    return _read_json(file, CellRecord) if file.is_file() else None


def _read_scores(folder: Path) -> ScoreRecord | None:
    file = folder / SCORES_FILE
    return _read_json(file, ScoreRecord) if file.is_file() else None


def _read_json(file: Path, kind: type[R]) -> R:
    try:
        raw: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{file}: not valid JSON ({error}); restore it, or remove its folder and run again") from None
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise UserError(
            f"{file}: written with log schema {schema}, this version reads up to {SCHEMA}; update dcoco-bench"
        )
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise UserError(f"{file}: {first_reason(error)}; restore the file, or run the cell again") from None


def first_reason(error: ValidationError) -> str:
    """`field: reason` of a pydantic error's first complaint."""
    detail = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in detail["loc"])
    reason = detail["msg"].removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason


def read_requests(file: Path) -> RequestLog:
    """Records that stand. A torn last line is left out and reported; any other bad line is an error with its number."""
    log = RequestLog()
    try:
        data = file.read_bytes() if file.exists() else b""
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from None
    lines = data.split(b"\n")
    torn = lines.pop()  # what follows the last newline: empty in a log that was closed between lines
    for number, line in enumerate(lines, 1):
        try:
            log.records.append(RequestRecord.model_validate_json(line))
        except ValidationError as error:
            raise UserError(
                f"{file}:{number}: corrupt line ({first_reason(error)}); restore the file, or remove it and --resume"
            ) from None
    if torn:
        log.problems.append(f"{file}: the last line is torn ({len(torn)} bytes, the writer was killed); left out")
    for r in log.records:
        log.walls[r.segment] = max(r.end, log.walls.get(r.segment, 0.0))
        if r.finish_reason == "error":
            log.failures[r.index] = log.failures.get(r.index, 0) + 1
    standing = current(log.records)
    if len(standing) < len(log.records):
        left_out = len(log.records) - len(standing)
        log.problems.append(f"{file}: {left_out} lines of conversations that were redone after a kill; left out")
    log.records = standing
    return log


def current(records: list[RequestRecord]) -> list[RequestRecord]:
    """Of a conversation that was played again, the newest segment stands: its turns saw one unbroken history."""
    newest: dict[int, int] = {}
    for record in records:
        newest[record.index] = max(record.segment, newest.get(record.index, 0))
    return [r for r in records if r.segment == newest[r.index]]


def list_runs(result_dir: Path) -> list[Path]:
    """Run folders, oldest first by the time they were created (names may be chosen by the user)."""
    if not result_dir.is_dir():
        return []
    dated = []
    for file in result_dir.glob(f"*/{RUN_FILE}"):
        try:
            created = str(json.loads(file.read_text(encoding="utf-8")).get("created", ""))
        except (OSError, ValueError, AttributeError):
            continue  # not ours, or broken: it cannot be the latest run, and naming it directly gives the reason
        dated.append((created, file.parent.name, file.parent))
    return [path for _, _, path in sorted(dated)]


def latest_run(result_dir: Path) -> Path:
    runs = list_runs(result_dir)
    if not runs:
        raise UserError(f"no run in {result_dir}; make one with: dcoco-bench run --suite gsm8k --conc 1,4,32")
    return runs[-1]
