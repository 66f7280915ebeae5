"""Two runs side by side: paired where they may be, refused with the reason where not."""

from __future__ import annotations

import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.report.compare import compare
from tests.gate.synthetic import MACHINE, run


def only(table):
    (row,) = table.rows
    return row


def test_ratios_are_paired_by_prompt() -> None:
    row = only(compare(run("a", noise=0.05, seed=1), run("b", noise=0.05, seed=1, slower=0.2)))
    assert row["tps"].value == pytest.approx(1.25)
    assert row["tps"].hi - row["tps"].lo < 1e-6  # the same noise on both sides cancels
    assert row["tau"].value == 1.0
    assert row["same"].value == 1.0


def test_times_of_another_machine_are_refused_and_the_rest_is_not() -> None:
    elsewhere = {**MACHINE, "machine": {"cpu": "another", "cpus_usable": 2}}
    row = only(compare(run("a"), run("b", provenance=elsewhere)))
    assert row["tps"].missing
    assert "other hardware" in row["tps"].reason
    assert row["tau"].value == 1.0


def test_another_suite_version_is_refused() -> None:
    row = only(compare(run("a", version=2), run("b")))
    assert row["tau"].missing
    assert "suite version" in row["tau"].reason


def test_answers_that_differ_are_counted() -> None:
    assert only(compare(run("a", wrong=25), run("b")))["same"].value == pytest.approx(0.75)


def test_runs_without_a_common_cell_are_one_clear_line() -> None:
    with pytest.raises(UserError, match="no cell in common"):
        compare(run("a", suites=("gsm8k",)), run("b", suites=("mbpp",)))
