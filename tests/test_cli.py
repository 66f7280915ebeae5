"""Every bad input is one clear line and exit code 2, before anything is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dcoco_bench.cli import main
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.vocabulary import Vocabulary
from tests.tiny import VOCAB, backbone

REPLAY = ["run", "--engine", "replay", "--suite", "gsm8k", "--num-prompts", "2", "--max-tokens", "8"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DCOCO_BENCH_DATA", raising=False)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr; nothing may have been written."""
    before = sorted(Path.cwd().rglob("*"))
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    text = capsys.readouterr().err
    assert stopped.value.code == 2, text
    *announced, last = text.strip().splitlines()
    assert last.startswith("error: ")
    assert all(" cells on " in line for line in announced), text  # what was about to run, nothing else
    assert sorted(Path.cwd().rglob("*")) == before
    return last


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "gms8k"], "unknown suite 'gms8k'.*did you mean 'gsm8k'"),
        (["--method", "dlfash"], "unknown method 'dlfash'.*did you mean 'dflash'"),
        (["--backbone", "smollm-135m"], "unknown backbone 'smollm-135m'.*did you mean 'smollm2-135m'"),
        (["--engine", "torhc"], "unknown engine 'torhc'.*did you mean 'torch'"),
        (["--conc", "0"], "--conc 0: must be 1 or more"),
        (["--max-concurrency", "1,x"], "--conc x: not a number"),
        (["--temperature", "1", "--top-k", "1"], "--top-k 1.*temperature 1 with top-k 1 is greedy"),
        (["--temperature", "-1"], "--temperature -1: must be 0 or more"),
        (["--temperature", "nan"], "--temperature nan"),
        (["--top-p", "1.5"], "--top-p 1.5: must be above 0 and at most 1"),
        (["--thinking", "on"], "--thinking on: backbone 'smollm2-135m' has no such mode"),
        (["--thinking", "maybe"], "--thinking maybe: not known; choose from off, on"),
        (["--max-tokens", "0"], "--max-tokens 0: must be at least 1"),
        (["--max-tokens", "9000"], "--max-tokens 9000: prompt .* the context holds 8192"),
        (["--num-prompts", "0"], "--num-prompts 0: must be at least 1"),
        (["--seeds", "a"], "--seeds a: not a number"),
        (["--dtype", "float8"], "--dtype float8: not known"),
        (["--turns", "last"], "--turns last: not known"),
        (["--method", "dflash@k=8"], "method 'dflash' has no parameter 'k'"),
        (["--method", "dflash@n=0"], "n=0 is not usable"),
        (["--method", "dflash@n"], "'n' is not key=value"),
        (["--engine-arg", "accept"], "--engine-arg 'accept' is not key=value"),
        (["--engine-arg", "acept=0.5"], "acept: unknown to replay; did you mean 'accept'"),
        (["--checkpoint", "dflash"], "--checkpoint dflash: not METHOD=FOLDER"),
        (["--checkpoint", "dflash=nowhere"], "no config.json there"),
        (["--matrix", "nowhere.toml"], "--matrix nowhere.toml: cannot be read"),
        (["--plugin-dir", "nowhere"], "--plugin-dir nowhere: no such folder"),
        (["--data-dir", "nowhere"], "nowhere"),
        (["--run-name", "../up"], "--run-name '../up': use letters"),
        (["--no-such-flag"], "no-such-flag"),
    ],
)
def test_bad_flags(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    import re

    line = refused([*REPLAY, *arguments], capsys)
    assert re.search(said, line), line


def test_no_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no suite given" in refused(["run", "--engine", "replay"], capsys)


def test_a_suite_file_with_a_broken_row_names_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data").mkdir()
    Path("data/gsm8k.jsonl").write_text('{"id": "a", "turns": ["one"], "source": "x"}\n{"id": "b", "turns": []}\n')
    line = refused([*REPLAY, "--data-dir", "data"], capsys)
    assert "gsm8k.jsonl" in line
    assert "2" in line


def test_an_unwritable_result_folder(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("in the way")
    assert "cannot write" in refused([*REPLAY, "--result-dir", "file/results"], capsys)


def test_a_matrix_file_with_an_unknown_key(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.toml").write_text('suites = ["gsm8k"]\nconcurency = [1]\n')
    assert "unknown key 'concurency'; did you mean 'concurrency'" in refused([*REPLAY, "--matrix", "m.toml"], capsys)


def test_report_of_a_newer_schema_and_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no run in results" in refused(["report"], capsys)
    Path("results/new").mkdir(parents=True)
    Path("results/new/run.json").write_text(json.dumps({"schema": 2, "created": "2030"}))
    assert "schema 2, this version reads up to 1" in refused(["report", "results/new"], capsys)


TORCH = ["run", "--engine", "torch", "--suite", "gsm8k", "--num-prompts", "1", "--max-tokens", "4"]


def test_a_draft_that_does_not_fit_names_both_shapes(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint.save(Path("draft"), backbone(), Vocabulary.full(VOCAB))
    line = refused([*TORCH, "--method", "vanilla,dflash", "--checkpoint", "dflash=draft"], capsys)
    assert "hidden_size 32 (target: 576), vocab_size 61 (target: 49152)" in line


def test_a_draft_without_layout_flag(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint.save(Path("draft"), backbone(), Vocabulary.full(VOCAB))
    config = json.loads(Path("draft/config.json").read_text())
    del config["dcoco_bench"]
    Path("draft/config.json").write_text(json.dumps(config))
    assert "no layout flag" in refused([*TORCH, "--method", "dflash", "--checkpoint", "dflash=draft"], capsys)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--method", "vanilla", "--teacher", "t", "--out", "o", "--steps", "1"], "not a teacher data folder"),
        (["train", "--method", "dflash", "--teacher", "t", "--out", "o"], "needs a budget"),
        (["train", "--method", "dflash", "--teacher", "t", "--out", "o", "--layout", "up"], "--layout up: unknown"),
        (["generate", "--prompts", "nowhere.jsonl", "--out", "o"], "nowhere.jsonl"),
        (["generate", "--prompts", "p.jsonl", "--out", "o", "--taps", "a"], "--taps a: not whole numbers"),
    ],
)
def test_training_commands_refuse_bad_input(
    arguments: list[str], said: str, smollm2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(arguments, capsys)


def test_the_papers_matrix_is_planned_and_says_what_it_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    matrix = Path(__file__).parents[1] / "results" / "paper.toml"
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--matrix", str(matrix), "--dry-run"])
    shown = capsys.readouterr()
    assert stopped.value.code == 0
    assert "800 cells" in shown.out  # 4 targets, 10 suites, 5 methods, greedy once and T=1 at 3 seeds
    assert "B200" in shown.out
    assert "published: TD-Labs/Qwen3-8B-DCOCO" in shown.err
    assert not any(Path.cwd().iterdir())


def test_dry_run_lists_cells_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*REPLAY, "--method", "vanilla,dflash@n=3", "--conc", "1,4", "--dry-run"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert out.count("dflash@n=3") == 2
    assert not list(Path.cwd().iterdir())


def test_help_and_lists_do_not_import_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from dcoco_bench.cli import main\n"
        "try: main(['list', 'suites'])\nexcept SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, env=dict(os.environ)).returncode == 0
