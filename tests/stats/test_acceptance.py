"""The golden example and the stop-token fixture of measurement.md section 3, and what is missing rather than 0."""

from __future__ import annotations

import pytest

from dcoco_bench.log import RoundCounts
from dcoco_bench.stats.acceptance import acceptance, tau_from_totals, vanilla_acceptance


@pytest.fixture
def golden(request_of):
    return [request_of(0, [4, 4, 1]), request_of(1, [0])]


def test_golden_example(golden):
    a = acceptance(golden)
    assert [len(r.output_ids) for r in golden] == [13, 2]
    assert (a.tau, a.tau_raw) == (3.25, 3.25)
    assert a.tau_raw - 1 == 2.25  # without the bonus token
    assert (a.tau_request, a.tau_request_raw) == (2.5, 2.5)
    assert (a.accepted, a.drafted, a.acceptance_rate) == (9, 16, 0.5625)
    assert a.marginal == (0.75, 0.5, 0.5, 0.5)
    assert a.conditional == pytest.approx((0.75, 2 / 3, 1.0, 1.0))
    assert a.histogram == (1, 1, 0, 0, 2)
    assert sum(a.marginal) == a.tau_raw - 1
    assert a.undrafted_share == 0


def test_golden_example_in_other_tools_definitions(golden):
    a = acceptance(golden)
    tokens = sum(len(r.output_ids) for r in golden)
    assert tokens / a.rounds == 3.75  # SpecForge: the prefill token counts
    assert (13 / (3 + 1) + 2 / (1 + 1)) / 2 == 2.125  # Model-Optimizer: the prefill chunk is a round
    assert tau_from_totals(tokens, len(golden), a.rounds) == a.tau


def test_stop_token_cuts_delivered_tau_only(request_of):
    one = request_of(accepted=[5], k=5, cut=3)
    assert len(one.output_ids) == 4
    a = acceptance([one])
    assert (a.tau_raw, a.tau) == (6.0, 3.0)
    assert a.trim_gap == 1.0
    assert "6.000" in a.trim_warning
    assert "3.000" in a.trim_warning


def test_small_trim_gap_is_no_warning(request_of):
    a = acceptance([request_of(0, [4] * 200, cut=1)])
    assert a.trim_gap == pytest.approx(0.001, rel=0.01)
    assert a.trim_warning is None


def test_a_draft_in_the_wrong_layout_is_suspected(request_of):
    """About 1 % of first tokens accepted, and never a suspicion from a handful of rounds."""
    assert "only 1.0% of first draft tokens accepted" in acceptance([request_of(0, [0] * 99 + [1])]).misfit
    assert acceptance([request_of(0, [0] * 10)]).misfit is None
    assert acceptance([request_of(0, [0] * 90 + [1] * 10)]).misfit is None
    assert vanilla_acceptance([request_of(0, [])]).misfit is None


def test_variable_draft_length_conditional(request_of):
    """Position 1 was offered in one of the two rounds that accepted position 0."""
    r = request_of(0)
    r.rounds = RoundCounts(drafted=[1, 3], accepted=[1, 2], delivered=[2, 3])
    a = acceptance([r])
    assert a.marginal == (1.0, 0.5, 0.0)
    assert a.conditional == (1.0, 1.0, 0.0)


def test_undrafted_rounds_are_shown_and_not_in_tau(request_of):
    r = request_of(0, tokens=7)
    r.rounds = RoundCounts(drafted=[4, 0, 0], accepted=[3, 0, 0], delivered=[4, 1, 1])
    a = acceptance([r])
    assert (a.rounds, a.undrafted, a.tau) == (1, 2, 4.0)
    assert a.undrafted_share == pytest.approx(2 / 3)
    assert tau_from_totals(7, 1, 1, undrafted_tokens=2) == 4.0


def test_missing_rounds_are_missing_not_zero(request_of):
    a = acceptance([request_of(0, tokens=9)])
    assert a.unknown == 1
    assert (a.tau, a.tau_raw, a.tau_request, a.acceptance_rate, a.undrafted_share) == (None,) * 5
    assert a.inactive is None


def test_requests_without_a_round_are_left_out_and_counted(request_of):
    a = acceptance([request_of(0, []), request_of(1, [2, 2])])
    assert (a.roundless, a.requests, a.tau_request) == (1, 2, 3.0)


def test_inactive_drafter(request_of):
    a = acceptance([request_of(i, [0] * 10, k=3) for i in range(10)])
    assert a.inactive == "0 of 300 draft tokens accepted"
    r = request_of(0, tokens=3)
    r.rounds = RoundCounts(drafted=[0, 0], accepted=[0, 0], delivered=[1, 1])
    assert acceptance([r]).inactive == "no draft tokens in 2 decode steps"


def test_vanilla_is_one_by_construction(request_of):
    a = vanilla_acceptance([request_of(0, tokens=9)])
    assert (a.tau, a.tau_raw, a.tau_request, a.tau_request_raw) == (1.0,) * 4
    assert a.acceptance_rate is None
    assert a.inactive is None


def test_failed_requests_do_not_count(request_of, golden):
    bad = request_of(2, [0, 0], finish_reason="error", error="out of memory")
    assert acceptance([*golden, bad]) == acceptance(golden)


def test_nothing_at_all():
    a = acceptance([])
    assert (a.requests, a.tau, a.marginal, a.inactive) == (0, None, (), None)
