"""Throughput definitions on the example of measurement.md section 2.2, and times that are missing."""

from __future__ import annotations

import math

import pytest

from dcoco_bench.stats.requests import request_table
from dcoco_bench.stats.throughput import drift, phase_split, round_time, throughput


@pytest.fixture
def two(request_of):
    """100 tokens in 1 s and in 4 s, one after the other."""
    return [
        request_of(0, tokens=100, start=0.0, first_token=0.5, end=1.0),
        request_of(1, tokens=100, start=1.0, first_token=1.5, end=5.0),
    ]


def test_ratio_of_sums(two):
    t = throughput(two, [5.0])
    assert t.per_stream_tps == 40
    assert t.aggregate_tps == 40
    assert t.decode_tps == 198 / 4
    assert t.e2e.mean == 2.5
    assert t.ttft.p50 == 0.5
    assert t.tpot.mean == pytest.approx((0.5 / 99 + 3.5 / 99) / 2)


def test_wall_is_the_sum_of_segments(two):
    assert throughput(two, [3.0, 7.0]).aggregate_tps == 20


def test_failed_requests_are_excluded_and_counted(request_of, two):
    bad = request_of(2, tokens=0, start=0.0, first_token=None, end=60.0, finish_reason="error", error="HTTP 500")
    t = throughput([*two, bad], [5.0])
    assert (t.per_stream_tps, t.failed, t.requests) == (40, 1, 2)


def test_missing_times(request_of, two):
    lost = request_of(2, tokens=50, end=math.nan)
    t = throughput([*two, lost], [5.0])
    assert (t.per_stream_tps, t.untimed) == (40, 1)
    blind = request_of(3, tokens=100, first_token=None, end=1.0)
    t = throughput([blind], [])
    assert t.per_stream_tps == 100
    assert (t.aggregate_tps, t.decode_tps, t.ttft, t.tpot) == (None,) * 4


def test_single_token_has_no_tpot(request_of):
    t = throughput([request_of(0, tokens=1)], [1.0])
    assert t.tpot is None
    assert t.per_stream_tps == 1


def test_nothing():
    t = throughput([], [3.0])
    assert (t.per_stream_tps, t.aggregate_tps, t.e2e, t.tokens) == (None, None, None, 0)


def test_round_time_and_the_papers_overhead():
    """tau ratio 1.274 over TPS ratio 1.226 is the paper's 3-4 % per cycle."""
    reference, ours = round_time(3.913, 100.0), round_time(3.913 * 1.274, 122.6)
    assert ours / reference - 1 == pytest.approx(0.039, abs=5e-4)
    assert round_time(None, 100.0) is None
    assert round_time(2.0, 0.0) is None


def test_phase_split():
    counters = {"prefill_s": 9.0, "draft_s": 1.0, "head_s": 0.0, "verify_s": 3.0, "steps": 100.0}
    assert phase_split(counters) == {"draft": 0.01, "head": 0.0, "verify": 0.03}
    assert phase_split({"draft_s": 1.0}) == {}


def test_drift(request_of):
    cold = [request_of(i, tokens=100, start=0.0, end=10.0 / (i + 1)) for i in range(12)]
    ordered = [r.model_copy(update={"start": 20.0 * i, "end": 20.0 * i + r.end}) for i, r in enumerate(cold)]
    assert drift(request_table(ordered)) == pytest.approx(1.0)
    assert drift(request_table([request_of(i, tokens=10) for i in range(20)])) is None
