"""How often the gate is right, on runs of known truth. At full size: `python -m tests.benchmarks.gate_power`."""

from __future__ import annotations

from tests.benchmarks.gate_power import rates


def test_a_five_percent_drop_is_caught_and_nothing_is_made_of_noise() -> None:
    found = rates(drop=0.05, repeats=120)
    assert found.regressions >= 0.85  # 0.97 at full size; 120 repeats scatter by 0.03
    same = rates(drop=0.0, repeats=120)
    assert same.regressions <= 0.02
