"""Every served method decodes in a real vLLM server what the torch engine decodes, round for round."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcoco_bench.log_read import Run
from dcoco_bench.stats.cells import CellLog, is_baseline
from dcoco_bench.stats.losslessness import match
from dcoco_bench.stats.parity import parity
from tests.server.tool import ON_CPU, run, served_methods

METHODS = served_methods()
NEAR_TIE = 0.05  # logits; two engines sum in another order


def logs(found: Run) -> dict[str, CellLog]:
    cells = [CellLog(c.record, c.requests) for c in found.cells if c.record is not None]
    return {log.cell.method: log for log in cells}


@pytest.fixture(scope="module")
def served(results: Path) -> dict[str, CellLog]:
    return logs(run(results, "served", "--method", ",".join(METHODS), "--record-candidates", *ON_CPU))


@pytest.fixture(scope="module")
def embedded(results: Path) -> dict[str, CellLog]:
    return logs(run(results, "embedded", "--method", ",".join(METHODS), "--record-candidates", "--engine", "torch"))


@pytest.mark.parametrize("method", METHODS)
def test_a_served_cell_is_whole_and_agrees_with_the_servers_own_counters(
    served: dict[str, CellLog], method: str
) -> None:
    log = served[method]
    assert log.unusable is None  # identities of the log, counters included
    assert log.acceptance.unknown == 0  # the rounds of every request
    if not is_baseline(method):
        assert log.acceptance.misfit is None
        assert log.record.counters, "the counters of the server are there to be held against"


@pytest.mark.parametrize("method", [m for m in METHODS if not is_baseline(m)])
def test_served_answers_are_vanillas(served: dict[str, CellLog], method: str) -> None:
    found = match(served[method], served["vanilla"])
    assert found.prompts == 3
    assert found.matched == 3


@pytest.mark.parametrize("method", [m for m in METHODS if not is_baseline(m)])
def test_rounds_are_those_of_the_torch_engine(
    served: dict[str, CellLog], embedded: dict[str, CellLog], method: str
) -> None:
    found = parity(served[method], embedded[method])
    assert all(d.margin is not None and d.margin < NEAR_TIE for d in found.divergences), found.divergences
    assert found.other_rounds == ()


@pytest.mark.parametrize("method", [m for m in METHODS if not is_baseline(m)])
def test_recorded_candidates_are_those_of_the_torch_engine(
    served: dict[str, CellLog], embedded: dict[str, CellLog], method: str
) -> None:
    there = {r.index: r for r in embedded[method].requests}
    best = found = 0
    for request in served[method].requests:
        assert request.candidates is not None
        other = there[request.index]
        if request.output_ids != other.output_ids:
            continue
        assert other.candidates is not None
        # The torch engine drafts nothing for an answer's last token, so it may have a round less.
        for here, reference in zip(request.candidates, other.candidates, strict=False):
            best += sum(a[0] == b[0] for a, b in zip(here, reference, strict=True))
            found += len(here)
    assert found
    assert best >= 0.99 * found  # ties may fall either way


def test_what_runs_is_read_back_and_logged(served: dict[str, CellLog]) -> None:
    effective = served["dcoco"].record.effective
    assert effective["draft_tokens"] == 7
    assert effective["prefix_cache"] is False
    assert str(effective["vllm"]).startswith("vllm")
