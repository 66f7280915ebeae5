"""Run folders on disk, written by the real log store, decoded by a seeded acceptance process."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcoco_bench.cells import Cell, Matrix
from dcoco_bench.log import TAU_DEFINITION, CellRecord, RequestRecord, RoundCounts, RunRecord, SuiteRecord
from dcoco_bench.log_store import LogWriter, write_cell, write_run

K = 4
PROVENANCE = {"machine": {"cpu": "Test CPU", "cpus_usable": 2}, "torch": {"threads": 1, "gpus": []}}


def answer(cell: Cell, index: int, candidates: bool) -> RequestRecord:
    """Vanilla takes 10 ms a token, a drafting round 15 ms; the token ids depend on the prompt alone."""
    words = random.Random(f"{cell.suite} {index}")
    ids = [words.randrange(1000) for _ in range(words.randrange(20, 40))]
    luck = random.Random(f"{cell.method} {cell.suite} {index} {cell.seed}")
    rounds = RoundCounts(drafted=[], accepted=[], delivered=[])
    rows: list[list[list[int]]] = []
    given = 1
    while given < len(ids):
        drafts = 0 if cell.method.startswith("vanilla") else K
        hits = luck.randrange(drafts + 1)
        out = min(hits + 1, len(ids) - given)
        if drafts:
            future = [*ids[given : given + K], *[0] * K][:K]
            rows.append([[future[i] if i < hits else 5000, future[i]] for i in range(K)])
        rounds.drafted.append(drafts)
        rounds.accepted.append(hits)
        rounds.delivered.append(out)
        given += out
    seconds = len(rounds.drafted) * (0.015 if rows else 0.01) * luck.uniform(0.95, 1.05)
    return RequestRecord(
        index=index,
        prompt_id=f"{cell.suite}-{index}",
        prompt_sha=f"{index:016x}",
        prompt_tokens=9,
        start=0.5 * index,
        first_token=0.5 * index + 0.005,
        end=0.5 * index + 0.005 + seconds,
        output_ids=ids,
        finish_reason="stop",
        rounds=rounds,
        candidates=rows if candidates and rows else None,
    )


def write(
    folder: Path,
    matrix: Matrix,
    *,
    prompts: int = 12,
    origin: str = "data",
    edit: Callable[[Cell, list[RequestRecord], dict[str, Any]], bool | None] = lambda cell, requests, record: None,
) -> Path:
    """Write a finished run. `edit` may change a cell's requests and record; returning False leaves it unfinished."""
    cells = matrix.cells()
    write_run(
        folder,
        RunRecord(
            name=folder.name,
            created="2026-01-01T00:00:00+00:00",
            command=["dcoco-bench", "run"],
            matrix=matrix,
            cells=[c.id for c in cells],
            provenance=PROVENANCE,
        ),
    )
    for cell in cells:
        requests = [answer(cell, i, matrix.record_candidates) for i in range(prompts)]
        record: dict[str, Any] = {
            "id": cell.id,
            "cell": cell,
            "status": "ok",
            "suite": SuiteRecord(
                name=cell.suite, version=1, origin=origin, prompt_hash="abc", category="math", prompts=prompts
            ),
            "walls": [0.5 * prompts + 1],
            "counters": {
                "prefill_s": 0.1,
                "draft_s": 0.2,
                "head_s": 0.0,
                "verify_s": 0.9,
                "other_s": 0.1,
                "steps": 100.0,
            },
            "effective": {"draft_tokens": K},
            "warmup": {},
            "definitions": {"tau": TAU_DEFINITION},
            "provenance": PROVENANCE,
        }
        finished = edit(cell, requests, record)
        with LogWriter(folder, cell.id) as log:
            log.append(requests)
        if finished is not False:
            write_cell(folder, CellRecord(**record))
    return folder


@pytest.fixture
def write_test_run(tmp_path: Path) -> Callable[..., Path]:
    def make(matrix: Matrix, name: str = "r1", **more: Any) -> Path:
        return write(tmp_path / name, matrix, **more)

    return make
