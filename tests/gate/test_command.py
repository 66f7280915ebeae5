"""`dcoco-bench gate` as CI calls it: real runs on the replay engine, exit codes and files."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dcoco_bench.cli import main


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([*arguments])
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def make(name: str, *more: str) -> None:
    words = ("run", "--engine", "replay", "--suite", "gsm8k", "--method", "vanilla,dflash", "--run-name", name)
    assert code(*words, "--num-prompts", "12", "--max-tokens", "24", *more) == 0


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DCOCO_BENCH_DATA", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_an_unchanged_engine_passes_and_every_form_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    make("before")
    make("after")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    assert code("gate", "before", "after", "--json", "gate.json", "--junit", "gate.xml") == 0
    verdict = json.loads(Path("gate.json").read_text())
    assert verdict["outcome"] == "pass"
    assert {c["metric"] for c in verdict["checks"]} == {"tps", "tau", "failures", "mismatch"}
    suite = ElementTree.parse("gate.xml").getroot()
    assert int(suite.attrib["tests"]) == len(verdict["checks"]) == len(suite)
    assert suite.attrib["failures"] == "0"
    assert "checks passed" in Path("summary.md").read_text()


def test_a_lower_acceptance_is_a_regression_in_the_exit_code_and_in_the_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make("before", "--engine-arg", "accept=0.8")
    make("after", "--engine-arg", "accept=0.8")
    log = next(Path("results/after/cells").glob("*/requests.jsonl"))  # what a slower build would have logged
    for file in Path("results/after/cells").glob("*/requests.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            row["end"] = row["start"] + 1.3 * (row["end"] - row["start"])
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert log.exists()
    assert code("gate", "before", "after", "--junit", "gate.xml", "--summary", "summary.md") == 1
    assert int(ElementTree.parse("gate.xml").getroot().attrib["failures"]) >= 2
    assert "**regression**" in Path("summary.md").read_text()
    assert code("gate", "before", "after", "--max-tps-drop", "50%") == 0
    assert "regression" in capsys.readouterr().out


def test_other_engine_arguments_are_no_baseline() -> None:
    make("before", "--engine-arg", "accept=0.8")
    make("after", "--engine-arg", "accept=0.7")
    assert code("gate", "before", "after") == 5


def test_calibration() -> None:
    make("one")
    make("two")
    assert code("gate", "calibrate", "one", "two") == 0


@pytest.mark.parametrize("words", [["only"], ["a", "b", "c"], ["calibrate", "one"]])
def test_a_wrong_number_of_runs_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert code("gate", *words) == 2
    assert "BASELINE and CURRENT" in capsys.readouterr().err
