"""`vllm bench serve` results in and out: their numbers come back, and what they lack is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dcoco_bench.cells import Matrix
from dcoco_bench.cli import main
from dcoco_bench.errors import UserError
from dcoco_bench.interop.importing import import_run
from dcoco_bench.interop.vllm_read import read_results
from dcoco_bench.interop.vllm_write import as_vllm_json
from dcoco_bench.log_read import read_run
from dcoco_bench.report.command import report
from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.paired import measure
from tests.gate.synthetic import run
from tests.report.conftest import write


def result(seconds: float = 1.0, requests: int = 10, drafts: bool = True, **more: Any) -> dict[str, Any]:
    """As `vllm bench serve` 0.32 writes with --save-detailed: 31 tokens a request, 10 rounds of 3 tokens each."""
    gaps = [seconds / 10] * 10
    found: dict[str, Any] = {
        "date": "20261201-120000",
        "backend": "openai",
        "model_id": "some/model",
        "max_concurrency": 4,
        "request_rate": "inf",
        "duration": 10.0,
        "completed": requests,
        "failed": 0,
        "output_throughput": 31.0,
        "input_lens": [9 + i for i in range(requests)],
        "output_lens": [31] * requests,
        "ttfts": [0.1] * requests,
        "itls": [gaps] * requests,
        "start_times": [100.0 + i for i in range(requests)],
        "errors": [""] * requests,
    }
    if drafts:
        found |= {
            "spec_decode_acceptance_rate": 100 * 2 / 7,  # percent
            "spec_decode_acceptance_length": 3.0,
            "spec_decode_num_drafts": 10 * requests,
            "spec_decode_draft_tokens": 70 * requests,
            "spec_decode_accepted_tokens": 20 * requests,
        }
    return found | more


def imported(tmp_path: Path, *results: tuple[str, dict[str, Any]]) -> dict[str, CellLog]:
    files = []
    for method, value in results:
        file = tmp_path / f"{method}.json"
        file.write_text(json.dumps(value))
        files.append((method, file))
    folder = import_run(files, tmp_path / "run", "gsm8k", None, 0.0)
    cells = read_run(folder).cells
    return {c.record.cell.method: CellLog(c.record, c.requests) for c in cells if c.record}


def test_times_and_totals_come_back(tmp_path: Path) -> None:
    log = imported(tmp_path, ("dflash", result()))["dflash"]
    assert log.unusable is None
    assert log.throughput.tokens == 310
    assert log.throughput.per_stream_tps == pytest.approx(31 / 1.1)
    assert log.throughput.aggregate_tps == pytest.approx(31.0)
    assert log.throughput.ttft is not None
    assert log.throughput.ttft.mean == pytest.approx(0.1)
    assert measure([log], "tau").estimate.value == pytest.approx(3.0)
    assert measure([log], "tau_raw").estimate.value == pytest.approx(3.0)
    assert measure([log], "acceptance_rate").estimate.value == pytest.approx(2 / 7)  # a fraction here
    assert "no interval" in measure([log], "tau").estimate.reason


def test_what_they_lack_is_missing_and_not_zero(tmp_path: Path) -> None:
    log = imported(tmp_path, ("dflash", result(drafts=False)))["dflash"]
    assert measure([log], "tau").estimate.value is None
    assert measure([log], "acceptance_rate").estimate.value is None


def test_a_pair_is_reported_with_its_speed_up_and_never_as_lossless(tmp_path: Path) -> None:
    logs = imported(tmp_path, ("vanilla", result(2.0, drafts=False)), ("dflash", result(1.0)))
    assert set(logs) == {"vanilla", "dflash"}
    made = report([tmp_path / "run"], tmp_path / "out")
    (results,) = [t for t in made.tables if t.name == "results"]
    row = next(r for r in results.rows if r["method"].value == "dflash")
    assert row["speedup"].value == pytest.approx(2.1 / 1.1)
    lossless = [r for t in made.tables if t.name == "losslessness" for r in t.rows]
    assert all(r["match_rate"].value is None for r in lossless)


def test_failed_requests_are_failed(tmp_path: Path) -> None:
    value = result(errors=["", "Traceback\nboom: no"] + [""] * 8)
    log = imported(tmp_path, ("vanilla", value))["vanilla"]
    assert log.throughput.failed == 1
    assert log.requests[1].error == "boom: no"


def test_appended_results_are_read_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text(json.dumps(result()) + "\n" + json.dumps(result(max_concurrency=8)) + "\n")
    assert [r["max_concurrency"] for r in read_results(file)] == [4, 8]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("{", "not JSON"),
        ("[]", "not a result"),
        (json.dumps({"output_throughput": 1.0}), "--save-detailed"),
        (json.dumps(result(ttfts=[0.1])), "of one length"),
    ],
)
def test_what_is_no_result_is_one_clear_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(UserError, match=reason):
        read_results(file)


def test_an_open_loop_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "open.json"
    file.write_text(json.dumps(result(max_concurrency=None)))
    with pytest.raises(UserError, match="--max-concurrency"):
        import_run([("vanilla", file)], tmp_path / "run", "gsm8k", None, 0.0)
    assert not (tmp_path / "run").exists()


def test_our_cells_in_their_keys_and_units() -> None:
    cell = run("a", noise=0.1).cells[0]
    assert cell.record is not None
    log = CellLog(cell.record, cell.requests)
    found = as_vllm_json(log)
    assert found["spec_decode_acceptance_length"] == log.acceptance.tau_raw
    assert found["spec_decode_acceptance_rate"] == pytest.approx(100 * 2 / 7)  # theirs is in percent
    assert max(found["spec_decode_per_position_acceptance_rates"]) <= 1.0  # and these are fractions
    assert found["total_output_tokens"] == log.throughput.tokens
    assert found["mean_e2el_ms"] == pytest.approx(1000 * log.throughput.e2e.mean)  # type: ignore[union-attr]


def test_there_and_back_again(tmp_path: Path) -> None:
    cell = run("a", noise=0.1).cells[0]
    assert cell.record is not None
    ours = CellLog(cell.record, cell.requests)
    theirs = imported(tmp_path, ("dflash", as_vllm_json(ours)))["dflash"]
    assert theirs.throughput.per_stream_tps == pytest.approx(ours.throughput.per_stream_tps)
    assert measure([theirs], "tau").estimate.value == pytest.approx(ours.acceptance.tau)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r1", Matrix(methods=("vanilla", "dflash"), suites=("gsm8k",)))
    with pytest.raises(SystemExit) as stopped:
        main(["report", str(tmp_path / "r1"), "--out", "out", "--save-vllm-json"])
    assert stopped.value.code == 0
    files = sorted((tmp_path / "out" / "vllm").glob("*.json"))
    assert len(files) == 2
    names = {json.loads(f.read_text())["label"].split()[1]: f for f in files}
    with pytest.raises(SystemExit) as stopped:
        main(["import", *(f"{m}={f}" for m, f in names.items()), "--run-name", "back", "--suite", "gsm8k"])
    assert stopped.value.code == 0
    assert len(read_run(Path("results/back")).cells) == 2
