"""Figures: their data is the tables', the same log gives the same bytes, and a method looks the same everywhere."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from dcoco_bench.cells import Matrix
from dcoco_bench.report.command import report
from dcoco_bench.report.figures.curves import curve
from dcoco_bench.report.figures.style import PALETTE, look

METHODS = ("vanilla", "dflash", "dcoco")


@pytest.fixture
def made(write_test_run, tmp_path: Path):
    matrix = Matrix(methods=METHODS, suites=("gsm8k", "mbpp"), concurrency=(1, 4), record_candidates=True)
    return report([write_test_run(matrix)], tmp_path / "out")


def test_every_figure_is_there_in_all_formats_with_its_data(made, tmp_path: Path) -> None:
    names = {f.name for f in made.figures}
    assert {"speedup-1-c1", "speedup-1-c4", "load-1", "positions-1", "lengths-1", "coverage-1-dcoco"} <= names
    for name in names:
        for kind in ("png", "svg", "pdf", "csv"):
            assert (tmp_path / "out" / "figures" / f"{name}.{kind}").stat().st_size > 100
        assert f"(figures/{name}.png)" in made.markdown.read_text()


def test_the_numbers_are_the_tables(made, tmp_path: Path) -> None:
    with (tmp_path / "out" / "tables" / "results.csv").open() as file:
        table = {(r["suite"], r["method"], r["concurrency"]): r for r in csv.DictReader(file)}
    data = pd.read_csv(tmp_path / "out" / "figures" / "speedup-1-c4.csv")
    assert len(data) == 4
    for row in data.itertuples():
        assert row.speedup == pytest.approx(float(table[row.suite, row.method, "4"]["speedup"]))
    with (tmp_path / "out" / "tables" / "versus.csv").open() as file:
        means = [r for r in csv.DictReader(file) if r["suite"].startswith("mean of suites")]
    load = pd.read_csv(tmp_path / "out" / "figures" / "load-1.csv")
    for row in means:
        mine = load[(load["method"] == row["method"]) & (load["streams"] == int(row["concurrency"]))]
        assert mine[mine["metric"] == "tau"]["ratio"].item() == pytest.approx(float(row["tau"]))
        assert mine[mine["metric"] == "tps"]["ratio"].item() == pytest.approx(float(row["tps"]))


def test_shares_of_rounds_sum_to_one(made, tmp_path: Path) -> None:
    data = pd.read_csv(tmp_path / "out" / "figures" / "lengths-1.csv")
    for _, mine in data.groupby("method"):
        assert mine["share"].sum() == pytest.approx(1.0)


def test_the_same_log_gives_the_same_bytes(write_test_run, tmp_path: Path) -> None:
    folder = write_test_run(Matrix(methods=METHODS, suites=("gsm8k",), concurrency=(1, 4)))
    for out in ("one", "two"):
        report([folder], tmp_path / out)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_one_load_has_no_load_figure(write_test_run, tmp_path: Path) -> None:
    found = report([write_test_run(Matrix(methods=METHODS, suites=("gsm8k",), concurrency=(4,)))], tmp_path / "out")
    assert not any(f.name.startswith("load") for f in found.figures)


def test_methods_differ_in_colour_and_marker_and_variants_in_their_lines() -> None:
    known = ["dcoco", "dflash", "dflash2", "domino", "dspark", "lilicorr"]
    looks = [look(name) for name in known]
    assert len({x.colour for x in looks}) == len({x.marker for x in looks}) == len(known)
    kin = ("dcoco", "dcoco@k=8")
    assert look("dcoco@k=8", kin).colour == look("dcoco").colour in PALETTE
    assert look("dcoco@k=8", kin).dash != look("dcoco", kin).dash


def test_a_curve_joins_the_runs_that_follow_one_another(tmp_path: Path) -> None:
    log = tmp_path / "training_log.jsonl"
    log.write_text(
        '{"run": "phase1", "step": 10, "tau": 1.5}\n{"run": "phase1", "step": 20, "ce": 3.0}\n'
        '{"run": "dcoco", "step": 5, "tau": 1.6}\n'
    )
    assert curve(log) == [{"step": 10.0, "tau": 1.5}, {"step": 25.0, "tau": 1.6}]
