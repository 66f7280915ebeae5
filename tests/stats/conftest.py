"""Builders of real log records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dcoco_bench.cells import Cell, Sampling
from dcoco_bench.log import TAU_DEFINITION, CellRecord, RequestRecord, RoundCounts, SuiteRecord
from dcoco_bench.stats.cells import CellLog


def build_request(
    index: int = 0, accepted: list[int] | None = None, k: int = 4, cut: int = 0, **more: Any
) -> RequestRecord:
    """A request whose rounds draft `k` and accept as given; `cut` tokens of the last round are not delivered."""
    rounds, tokens = None, more.pop("tokens", 1)
    if accepted is not None:
        delivered = [a + 1 for a in accepted]
        if delivered:
            delivered[-1] -= cut
        rounds = RoundCounts(drafted=[k] * len(accepted), accepted=accepted, delivered=delivered)
        tokens = 1 + sum(delivered)
    fields: dict[str, Any] = {
        "index": index,
        "prompt_id": f"p{index}",
        "prompt_sha": f"{index:016x}",
        "prompt_tokens": 5,
        "start": 0.0,
        "first_token": 0.1,
        "end": 1.0,
        "output_ids": list(range(tokens)),
        "finish_reason": "length",
        "rounds": rounds,
    }
    return RequestRecord(**fields | more)


def build_log(requests: list[RequestRecord], prompts: int | None = None, **more: Any) -> CellLog:
    cell_fields: dict[str, Any] = {
        "engine": "torch",
        "backbone": "tiny",
        "method": "dflash",
        "suite": "gsm8k",
        "concurrency": 1,
        "sampling": Sampling(),
    }
    record_fields: dict[str, Any] = {"walls": [10.0], "counters": {}, "status": "ok", "error": None}
    for key in list(more):
        (record_fields if key in record_fields else cell_fields)[key] = more.pop(key)
    cell = Cell(**cell_fields)
    count = len({r.index for r in requests}) if prompts is None else prompts
    suite = SuiteRecord(name=cell.suite, version=1, origin="data", prompt_hash="abc", category="math", prompts=count)
    record = CellRecord(
        id=cell.id,
        cell=cell,
        suite=suite,
        effective={},
        warmup={},
        definitions={"tau": TAU_DEFINITION},
        provenance={},
        **record_fields,
    )
    return CellLog(record, requests)


@pytest.fixture
def request_of() -> Callable[..., RequestRecord]:
    return build_request


@pytest.fixture
def log_of() -> Callable[..., CellLog]:
    return build_log
