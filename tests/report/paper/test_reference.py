"""The paper's values: each has a source, and those that are stated twice agree."""

from __future__ import annotations

import pytest

from dcoco_bench.report.paper.reference import find, paper_values


def only(**where):
    (value,) = find(**where)
    return value.value


def test_every_value_has_an_id_of_its_own_and_a_source():
    values = paper_values()
    assert len({v.id for v in values}) == len(values) > 30
    assert all(v.cited and v.entry.source for v in values)


@pytest.mark.parametrize("rival", ["domino", "dspark", "dflash"])
def test_stated_changes_of_tau_follow_from_the_stated_taus(rival):
    ours, theirs = only(id="tau-dcoco"), only(id=f"tau-{rival}")
    assert ours / theirs - 1 == pytest.approx(only(id=f"tau-over-{rival}"), abs=5e-4)


def test_the_stated_cost_of_a_round_follows_from_tau_and_tps():
    (cost,) = find(id="round-over-dflash")
    implied = (1 + only(id="tau-over-dflash")) / (1 + only(id="tps-over-dflash")) - 1
    assert cost.low <= implied <= cost.high


def test_the_recoverable_share_follows_from_the_block_means():
    top1, top16 = only(id="coverage-block-top1"), only(id="coverage-block-top16")
    assert (top16 - top1) / (1 - top1) == pytest.approx(only(id="recoverable"), abs=5e-3)


def test_a_range_is_written_as_text():
    assert find(id="round-over-dflash")[0].entry.value == "0.03 to 0.04"
    assert find(id="speedup-best")[0].entry.value == "up to 6.6"
