"""Random legal logs satisfy every identity; each broken one is named with both numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcoco_bench.log import RequestRecord, RoundCounts
from dcoco_bench.stats.acceptance import acceptance
from dcoco_bench.stats.identities import broken_identities, broken_summary

K = 5


@st.composite
def legal_request(draw: st.DrawFn) -> RequestRecord:
    drafted = draw(st.lists(st.integers(0, K), max_size=12))
    accepted = [draw(st.integers(0, d)) for d in drafted]
    delivered = [a + 1 for a in accepted]
    if delivered:
        delivered[-1] = draw(st.integers(1, delivered[-1]))
    return RequestRecord(
        index=draw(st.integers(0, 3)),
        prompt_id="p",
        prompt_sha="0",
        prompt_tokens=1,
        start=0.0,
        first_token=0.5,
        end=1.0,
        output_ids=[7] * (1 + sum(delivered)),
        finish_reason="stop",
        rounds=RoundCounts(drafted=drafted, accepted=accepted, delivered=delivered),
    )


@given(st.lists(legal_request(), max_size=8))
def test_legal_rounds_satisfy_every_identity(requests):
    a = acceptance(requests)
    tokens = float(sum(len(r.output_ids) for r in requests))
    assert broken_identities(requests, a, K, {"generation_tokens": tokens}) == []
    assert a.rounds + a.undrafted == sum(len(r.rounds.drafted) for r in requests)
    if a.rounds:
        assert a.tau <= a.tau_raw
        assert 1 <= a.tau_raw <= K + 1
        assert all(c is None or 0 <= c <= 1 for c in a.conditional)


@pytest.mark.parametrize(
    ("rounds", "tokens", "numbers"),
    [
        (RoundCounts(drafted=[4], accepted=[5], delivered=[6]), 7, ("accepted 5", "4 drafted")),
        (RoundCounts(drafted=[4], accepted=[2], delivered=[4]), 5, ("delivered 4", "accepting 2")),
        (RoundCounts(drafted=[4], accepted=[2], delivered=[0]), 1, ("delivered 0", "accepting 2")),
        (RoundCounts(drafted=[9], accepted=[2], delivered=[3]), 4, ("drafted 9", "5")),
        (RoundCounts(drafted=[4], accepted=[-1], delivered=[0]), 1, ("accepted -1", "drafted 4")),
        (RoundCounts(drafted=[4, 4], accepted=[2], delivered=[3, 1]), 5, ("2 drafted", "1 accepted")),
        (RoundCounts(drafted=[4], accepted=[2], delivered=[3]), 9, ("9 tokens", "1 + 3")),
        (RoundCounts(drafted=[4, 4], accepted=[2, 0], delivered=[1, 1]), 3, ("1 of 3",)),
    ],
)
def test_broken_rounds_are_named_with_both_numbers(request_of, rounds, tokens, numbers):
    request = request_of(0, tokens=tokens, rounds=rounds)
    found = broken_identities([request], acceptance([request]), K)
    assert any(all(number in message for number in numbers) for message in found), found


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        ({"marginal": (0.5, 0.5, 0.5, 0.5)}, ("2.250000", "2.000000")),
        ({"marginal": (0.5, 0.75, 0.5, 0.5)}, ("0.500000", "0.750000")),
        ({"histogram": (1, 1, 0, 0, 1)}, ("3", "4")),
        ({"accepted": 8}, ("9", "8")),
        ({"drafted": 5}, ("9", "5")),
        ({"drafted": 99}, ("99", "20")),
        ({"tau": 3.5}, ("3.5", "3.25")),
    ],
)
def test_inconsistent_summary(request_of, change, numbers):
    """Numbers from counters can disagree with each other, as in vLLM's data-parallel mode (C05)."""
    summary = replace(acceptance([request_of(0, [4, 4, 1]), request_of(1, [0])]), **change)
    found = broken_summary(summary, K)
    assert any(all(n in message for n in numbers) for message in found), found


def test_client_and_engine_totals(request_of):
    requests = [request_of(0, [1, 1])]
    (message,) = broken_identities(requests, counters={"generation_tokens": 6.0})
    assert "5 tokens" in message
    assert "6" in message
    failed = request_of(1, tokens=0, finish_reason="error", error="gone")
    assert broken_identities([*requests, failed], counters={"generation_tokens": 6.0}) == []


def test_times(request_of):
    assert "1.000000 s" in broken_identities([request_of(0, [1], start=2.0, first_token=2.0, end=1.0)])[0]
    assert "after their end" in broken_identities([request_of(0, [1], first_token=3.0)])[0]
    assert broken_identities([request_of(0, [1], end=float("nan"))]) == []
