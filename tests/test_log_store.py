"""The log on disk: nothing that was written is lost, and what is broken is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.log import RequestRecord, RoundCounts
from dcoco_bench.log_read import read_requests, read_run_record
from dcoco_bench.log_store import REQUESTS_FILE, LogWriter, cell_dir, write_atomic


def record(index: int, segment: int = 0, turn: int = 0, **changes: object) -> RequestRecord:
    values: dict[str, object] = {
        "index": index,
        "turn": turn,
        "prompt_id": f"p/{index}",
        "prompt_sha": "0" * 16,
        "prompt_tokens": 3,
        "segment": segment,
        "start": 0.0,
        "first_token": 0.1,
        "end": 1.0 + index,
        "output_ids": [5, 6, 7],
        "finish_reason": "length",
        "rounds": RoundCounts(drafted=[3], accepted=[1], delivered=[2]),
    }
    return RequestRecord.model_validate(values | changes)


def log_file(run: Path) -> Path:
    return cell_dir(run, "c") / REQUESTS_FILE


def write(run: Path, *records: RequestRecord) -> None:
    with LogWriter(run, "c") as log:
        log.append(records)


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    write(tmp_path, record(1), record(0))
    write(tmp_path, record(2))
    log = read_requests(log_file(tmp_path))
    assert [r.index for r in log.records] == [1, 0, 2]
    assert log.records[0] == record(1)
    assert log.problems == []


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_last_line_is_reported_then_mended_before_the_next_append(tmp_path: Path, cut: int) -> None:
    write(tmp_path, record(0), record(1))
    data = log_file(tmp_path).read_bytes()
    log_file(tmp_path).write_bytes(data[:-cut])
    log = read_requests(log_file(tmp_path))
    assert [r.index for r in log.records] == [0]
    assert "torn" in log.problems[0]
    write(tmp_path, record(2))
    again = read_requests(log_file(tmp_path))
    assert [r.index for r in again.records] == [0, 2]
    assert again.problems == []


def test_a_corrupt_line_in_the_middle_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, record(0), record(1), record(2))
    lines = log_file(tmp_path).read_text().splitlines()
    lines[1] = lines[1].replace('"end":2.0', '"end":"late"')
    log_file(tmp_path).write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"requests.jsonl:2: corrupt line \(end"):
        read_requests(log_file(tmp_path))


def test_of_a_conversation_played_again_only_the_newest_go_stands(tmp_path: Path) -> None:
    write(tmp_path, record(0), record(1, turn=0), record(1, segment=1, turn=0), record(1, segment=1, turn=1))
    log = read_requests(log_file(tmp_path))
    assert [(r.index, r.segment, r.turn) for r in log.records] == [(0, 0, 0), (1, 1, 0), (1, 1, 1)]
    assert "redone" in log.problems[0]


def test_a_newer_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(UserError, match="schema 99, this version reads up to 1"):
        read_run_record(tmp_path)


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a run folder \(no run.json"):
        read_run_record(tmp_path)


def test_an_atomic_write_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    target = tmp_path / "cell.json"
    write_atomic(target, "old")
    (tmp_path / "cell.json.tmp").mkdir()  # the temporary file cannot be opened
    with pytest.raises(UserError, match="cannot write"):
        write_atomic(target, "new")
    assert target.read_text() == "old"


def test_a_full_disk_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        return  # only Linux has a device that is always full
    folder = cell_dir(tmp_path, "c")
    folder.mkdir(parents=True)
    log = LogWriter(tmp_path, "c")
    log._file.close()
    with Path("/dev/full").open("ab", buffering=0) as full:
        log._file = full  # type: ignore[assignment]
        with pytest.raises(UserError, match=r"No space left on device; free some space.*--resume"):
            log.append([record(0)])
