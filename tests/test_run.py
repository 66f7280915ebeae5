"""Runs as a user starts them: a process of its own, killed for real, resumed to the same log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dcoco_bench.log_read import read_run

MATRIX = ("--engine", "replay", "--suite", "gsm8k,mt-bench", "--method", "vanilla,dflash", "--conc", "4")
SLOW = (  # about 0.1 s a request, so that a kill lands inside a cell
    *("--engine-arg", "clock=real", "--engine-arg", "verify_ms=8", "--engine-arg", "length=20"),
    *("--num-prompts", "12", "--max-tokens", "32"),
)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != "DCOCO_BENCH_DATA"} | {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "dcoco_bench.cli", "run", "--result-dir", str(folder), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def wait_for_lines(folder: Path, count: int) -> None:
    """Until the run's logs hold `count` requests."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if sum(f.read_bytes().count(b"\n") for f in folder.glob("*/cells/*/requests.jsonl")) >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"no {count} requests were logged within a minute")


def answers(run_dir: Path) -> dict[tuple[str, int, int], Any]:
    """What was decoded, by cell, prompt and turn; times left out."""
    return {
        (cell.id, r.index, r.turn): (r.prompt_sha, r.output_ids, r.finish_reason)
        for cell in read_run(run_dir).cells
        for r in cell.requests
    }


def only_run(folder: Path) -> Path:
    (run_file,) = folder.glob("*/run.json")
    return run_file.parent


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int, int], Any]:
    folder = tmp_path_factory.mktemp("whole")
    code, _, err = finish(start(folder, *MATRIX, *SLOW))
    assert code == 0, err
    return answers(only_run(folder))


@pytest.mark.parametrize(("after", "how"), [(3, signal.SIGKILL), (17, signal.SIGKILL), (30, signal.SIGTERM)])
def test_a_killed_run_resumes_to_the_same_log_and_repeats_nothing_finished(
    tmp_path: Path, undisturbed: dict[tuple[str, int, int], Any], after: int, how: signal.Signals
) -> None:
    process = start(tmp_path, *MATRIX, *SLOW)
    wait_for_lines(tmp_path, after)
    process.send_signal(how)
    finish(process)
    run_dir = only_run(tmp_path)
    before = {file: file.read_bytes() for file in run_dir.glob("cells/*/requests.jsonl")}
    done = {file.parent.name for file in run_dir.glob("cells/*/cell.json")}
    kept = sum(data.count(b"\n") for data in before.values())
    assert kept >= after

    code, _, err = finish(start(tmp_path, *MATRIX, *SLOW, "--resume"))
    assert code == 0, err
    assert only_run(tmp_path) == run_dir
    assert answers(run_dir) == undisturbed
    for file, data in before.items():
        now = file.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        assert now.startswith(whole), "a finished request was lost"
        if file.parent.name in done:
            assert now == data, "a finished cell was measured again"
    repeated = sum(f.read_bytes().count(b"\n") for f in before) + _new_files(run_dir, before) - len(undisturbed)
    assert repeated <= 4 * 2, "more was redone than the conversations in flight"


def _new_files(run_dir: Path, before: dict[Path, bytes]) -> int:
    return sum(f.read_bytes().count(b"\n") for f in run_dir.glob("cells/*/requests.jsonl") if f not in before)


def test_resume_refuses_another_matrix_and_changes_nothing(tmp_path: Path) -> None:
    quick = ("--num-prompts", "2", "--max-tokens", "8")
    assert finish(start(tmp_path, *MATRIX, *quick, "--run-name", "a"))[0] == 0
    state = {f: f.read_bytes() for f in tmp_path.rglob("*.json*")}
    code, _, err = finish(start(tmp_path, *MATRIX, "--num-prompts", "3", "--resume", "--run-name", "a"))
    assert code == 2
    assert "the matrix differs (num_prompts 2 became 3" in err
    assert {f: f.read_bytes() for f in tmp_path.rglob("*.json*")} == state


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    quick = (*MATRIX, "--num-prompts", "1", "--max-tokens", "8", "--run-name", "a")
    assert finish(start(tmp_path, *quick))[0] == 0
    code, _, err = finish(start(tmp_path, *quick))
    assert code == 2
    assert "exists; add --resume" in err


def test_a_failing_cell_is_marked_and_the_rest_of_the_run_goes_on(tmp_path: Path) -> None:
    arguments = (*MATRIX, "--num-prompts", "8", "--max-tokens", "8", "--engine-arg", "dflash.crash_after=3")
    code, _, err = finish(start(tmp_path, *arguments))
    assert code == 1
    assert "failed: gsm8k dflash" in err
    status = {c.cell.method: c.record.status for c in read_run(only_run(tmp_path)).cells if c.cell and c.record}
    assert status == {"vanilla": "ok", "dflash": "failed"}


def test_below_the_success_floor_a_cell_is_no_result(tmp_path: Path) -> None:
    arguments = (*MATRIX, "--num-prompts", "10", "--max-tokens", "8", "--engine-arg", "fail=0.6")
    code, _, err = finish(start(tmp_path, *arguments))
    assert code == 1
    assert "prompts answered (floor 95%)" in err


def test_the_log_holds_what_measurement_asks(tmp_path: Path) -> None:
    assert finish(start(tmp_path, *MATRIX, "--num-prompts", "3", "--max-tokens", "16"))[0] == 0
    run = read_run(only_run(tmp_path))
    assert run.record.provenance["machine"]["cpus"]
    assert str(Path.home()) not in json.dumps(run.record.provenance)
    for cell in run.cells:
        assert cell.record is not None
        assert cell.record.suite.origin == "sample"
        assert cell.record.warmup["requests"] >= 4
        assert cell.record.definitions["tau"] == "round+bonus/delivered"
        assert all(r.prompt_tokens > 0 and r.end >= r.start >= 0 for r in cell.requests)


def test_a_draft_that_is_hardly_ever_right_is_said_at_once(tmp_path: Path) -> None:
    """As one read in the wrong block layout is: no error anywhere, and about 1 % of its tokens accepted."""
    quick = (*MATRIX, "--num-prompts", "6", "--max-tokens", "32", "--engine-arg", "dflash.accept=0.01")
    code, _, err = finish(start(tmp_path, *quick))
    assert code == 0, err
    warnings = [line for line in err.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == 2, err  # dflash on two suites; vanilla drafts nothing
    assert all("dflash" in line and "block layout" in line for line in warnings)
