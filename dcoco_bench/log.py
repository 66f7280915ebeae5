"""The log: one append-only JSON line per request, one `cell.json` per finished cell. All downstream reads only this.

<run>/run.json                     the matrix, the command, provenance
<run>/cells/<id>/requests.jsonl    RequestRecord lines, in order of finishing
<run>/cells/<id>/cell.json         CellRecord, written atomically when the cell is finished
<run>/cells/<id>/scores.json       ScoreRecord, where `score` was asked for
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dcoco_bench.cells import Cell, Matrix

SCHEMA = 1
TAU_DEFINITION = "round+bonus/delivered"


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RoundCounts(Record):
    """Per round: draft tokens offered, accepted before stop handling, tokens delivered. Equal lengths."""

    drafted: list[int]
    accepted: list[int]
    delivered: list[int]


class RequestRecord(Record):
    """One request (one turn of one prompt). Times are seconds since the start of its segment."""

    index: int  # place of the prompt in the cell's prompt list
    turn: int = 0
    prompt_id: str
    prompt_sha: str  # SHA-256 over the rendered prompt's token ids, 16 hex digits
    prompt_tokens: int
    segment: int = 0  # 0 for the first go, +1 for every resume of this cell
    stream: int = 0
    start: float
    first_token: float | None
    end: float
    output_ids: list[int]
    output_tokens: int | None = None  # their number, where an imported log has no ids
    finish_reason: Literal["stop", "length", "error"]
    error: str | None = None
    rounds: RoundCounts | None = None  # None = not known to the engine; vanilla has undrafted rounds
    candidates: list[list[list[int]]] | None = None
    margins: list[float] | None = None
    chunks: list[tuple[int, float]] | None = None  # a streaming engine's: tokens and arrival time of each chunk
    retries: int = 0

    @property
    def tokens(self) -> int:
        return len(self.output_ids) if self.output_tokens is None else self.output_tokens


class SuiteRecord(Record):
    """Which prompts were decoded. `origin` says where they came from; a sample is never passed off as the suite."""

    name: str
    version: int
    origin: Literal["data", "hub", "sample", "import"]
    prompt_hash: str  # over ids and texts of the prompts used, in order
    category: str
    prompts: int


class CellRecord(Record):
    """The finished marker and everything raw about the cell that is not per request."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    id: str
    cell: Cell
    status: Literal["ok", "failed"]
    error: str | None = None
    suite: SuiteRecord
    # seconds of each segment's measured part, first submit to last finish
    walls: list[float]
    counters: dict[str, float]
    effective: dict[str, Any]
    warmup: dict[str, Any]
    definitions: dict[str, str]
    provenance: dict[str, Any]

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ScoreRecord(Record):
    """Which answers of a finished cell are the reference's, by place of the prompt; None = no final answer given."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    id: str
    grader: str  # package and version
    grades: dict[int, bool | None]

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class RunRecord(Record):
    schema_version: int = Field(default=SCHEMA, alias="schema")
    name: str
    created: str  # ISO 8601, UTC
    command: list[str]
    matrix: Matrix
    cells: list[str]  # ids, in order
    provenance: dict[str, Any]

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
