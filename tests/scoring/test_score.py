"""A run is scored from its log alone: token ids, the target's own tokenizer, the suite's references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dcoco_bench.cells import Cell, Matrix
from dcoco_bench.cli import main
from dcoco_bench.log import RequestRecord
from dcoco_bench.log_read import read_run
from dcoco_bench.prompts import load_suite
from dcoco_bench.report.command import report
from tests.report.conftest import write

MATRIX = Matrix(methods=("vanilla", "dflash"), suites=("gsm8k", "mt-bench"), backbones=("smollm2-135m",))


@pytest.fixture
def answered(tmp_path: Path, smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Real sample prompts and token ids: of twelve answers vanilla has eight right, dflash four; two have no box."""
    from transformers import AutoTokenizer

    monkeypatch.delenv("DCOCO_BENCH_DATA", raising=False)
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    prompts = load_suite("gsm8k").prompts

    def edit(cell: Cell, requests: list[RequestRecord], record: dict[str, object]) -> None:
        right = 8 if cell.method == "vanilla" else 4
        for i, request in enumerate(requests):
            assert prompts[i].answer is not None
            value = prompts[i].answer if i < right else f"{prompts[i].answer}1"
            text = f"So the answer is \\boxed{{{value}}}." if i < 10 else "I do not know."
            request.output_ids = tokenizer.encode(text)
            request.rounds = None
            if cell.suite == "gsm8k":
                request.prompt_id = prompts[i].id

    return write(tmp_path / "results" / "r1", MATRIX, origin="sample", edit=edit)


def test_answers_are_held_against_the_references(answered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["score", str(answered)])
    assert done.value.code == 0
    assert "2 cells, 12 of 24 answers right" in capsys.readouterr().out
    grades = {c.record.cell.method: c.scores for c in read_run(answered).cells if c.record and c.scores}
    assert set(grades) == {"vanilla", "dflash"}  # mt-bench has no exact answers
    vanilla = grades["vanilla"]
    assert vanilla is not None
    assert list(vanilla.grades.values()) == [True] * 8 + [False] * 2 + [None] * 2


def test_the_report_shows_accuracy_and_the_paired_difference(answered: Path, tmp_path: Path) -> None:
    before = report([answered], tmp_path / "before")
    assert "accuracy" not in {t.name for t in before.tables}
    with pytest.raises(SystemExit):
        main(["score", str(answered)])
    (table,) = [t for t in report([answered], tmp_path / "after").tables if t.name == "accuracy"]
    vanilla, dflash = table.rows
    assert vanilla["accuracy"].value == pytest.approx(8 / 12)
    assert vanilla["unanswered"].value == 2
    assert dflash["difference"].value == pytest.approx(-4 / 12)
    assert dflash["difference"].lo is not None
    assert dflash["difference"].hi is not None
    assert dflash["difference"].lo < -4 / 12 < dflash["difference"].hi < 0.01
    assert "accuracy %" in (tmp_path / "after" / "report.md").read_text()


def test_without_the_references_nothing_is_scored(
    answered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    row = {"id": "gsm8k/other", "turns": ["one and one?"]}
    (data / "gsm8k.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(SystemExit) as done:
        main(["score", str(answered), "--data-dir", str(data)])
    assert done.value.code == 2
    told = capsys.readouterr().err
    assert "no reference answer for 'gsm8k/sample/00' and 11 more" in told
    assert "--data-dir" in told


def test_a_run_without_exact_answers_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["score", str(write(tmp_path / "r1", Matrix(methods=("vanilla",), suites=("mt-bench",))))])
    assert done.value.code == 2
    assert "gsm8k, math500, aime25" in capsys.readouterr().err
