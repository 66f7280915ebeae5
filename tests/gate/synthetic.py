"""Runs of known truth: speed per prompt is lognormal noise about a true value, answers and rounds as told."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dcoco_bench.cells import Cell, Matrix
from dcoco_bench.log import TAU_DEFINITION, CellRecord, RequestRecord, RoundCounts, RunRecord, SuiteRecord
from dcoco_bench.log_read import CellFolder, Run

TOKENS, SECONDS = 48, 1.0  # of a prompt, without noise
MACHINE = {"machine": {"cpu": "test", "cpus_usable": 2}, "packages": {"torch": "1"}, "checkpoint": "draft"}


def run(
    name: str,
    *,
    prompts: int = 100,
    noise: float = 0.0,
    slower: float = 0.0,
    accepted: int = 2,
    seed: int = 0,
    suites: tuple[str, ...] = ("gsm8k",),
    wrong: int = 0,
    failed: int = 0,
    provenance: dict[str, object] | None = None,
    version: int = 1,
) -> Run:
    """`noise`: sd of a prompt's log speed here. `slower`: the true share of speed lost. `wrong` answers differ."""
    rng = np.random.default_rng(seed)
    matrix = Matrix(methods=("dflash",), suites=suites, num_prompts=prompts)
    folders = []
    for cell in matrix.cells():
        seconds = SECONDS / (1 - slower) * np.exp(noise * rng.standard_normal(prompts))
        requests = [_request(i, s, accepted, i < wrong, i >= prompts - failed) for i, s in enumerate(seconds)]
        folders.append(CellFolder(cell.id, _record(cell, prompts, provenance or MACHINE, version), requests))
    record = RunRecord(
        name=name,
        created="2026-01-01T00:00:00+00:00",
        command=[],
        matrix=matrix,
        cells=[f.id for f in folders],
        provenance={},
    )
    return Run(Path(name), record, folders, [])


def _request(index: int, seconds: float, accepted: int, wrong: bool, failed: bool) -> RequestRecord:
    rounds = (TOKENS - 1) // (accepted + 1)
    counts = RoundCounts(drafted=[7] * rounds, accepted=[accepted] * rounds, delivered=[accepted + 1] * rounds)
    return RequestRecord(
        index=index,
        prompt_id=str(index),
        prompt_sha="0",
        prompt_tokens=4,
        start=0.0,
        first_token=seconds / 20,
        end=seconds,
        output_ids=[index + wrong] * (1 + rounds * (accepted + 1)),
        finish_reason="error" if failed else "length",
        error="broken" if failed else None,
        rounds=counts,
    )


def _record(cell: Cell, prompts: int, provenance: dict[str, object], version: int) -> CellRecord:
    suite = SuiteRecord(
        name=cell.suite, version=version, origin="data", prompt_hash=cell.suite, category="math", prompts=prompts
    )
    return CellRecord(
        id=cell.id,
        cell=cell,
        status="ok",
        suite=suite,
        walls=[1.0],
        counters={},
        effective={"draft_tokens": 7},
        warmup={},
        definitions={"tau": TAU_DEFINITION},
        provenance=dict(provenance),
    )
