"""Coverage on a log small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.log import RoundCounts
from dcoco_bench.stats.coverage import coverage


def test_by_hand(request_of):
    """Output 10 11 12 13 14; 3 slots, 2 candidates. Round 0 is anchored at token 10, round 1 at 12; each accepts 1."""
    r = request_of(
        0,
        output_ids=[10, 11, 12, 13, 14],
        rounds=RoundCounts(drafted=[3, 3], accepted=[1, 1], delivered=[2, 2]),
        candidates=[
            [[11, 1], [5, 12], [6, 13]],  # 11 first, 12 second, 13 second
            [[13, 2], [3, 4], [14, 15]],  # 13 first, 14 not there, slot 3 past the end
        ],
    )
    c = coverage([r])
    assert c.slots.tolist() == [2, 2, 1]
    assert c.by_slot.tolist() == [[1.0, 1.0], [0.0, 0.5], [0.0, 1.0]]
    assert c.block_mean == pytest.approx([1 / 3, 2.5 / 3])
    assert c.recoverable == pytest.approx((2.5 / 3 - 1 / 3) / (2 / 3))
    assert c.argmax_tau == 2.0  # both rounds: one hit, and the target's own token
    assert c.oracle_tau == 3.0  # round 0: three hits and one more; round 1: one hit and one more


def test_undrafted_rounds_move_the_anchor_and_have_no_row(request_of):
    r = request_of(
        0,
        output_ids=[10, 11, 12, 13],
        rounds=RoundCounts(drafted=[0, 2], accepted=[0, 1], delivered=[1, 2]),
        candidates=[[[12], [13]]],
    )
    assert coverage([r]).by_slot.tolist() == [[1.0], [1.0]]


def test_requests_are_pooled_and_ragged_blocks_padded(request_of):
    one = request_of(
        0,
        output_ids=[1, 2, 3],
        rounds=RoundCounts(drafted=[2], accepted=[0], delivered=[2]),
        candidates=[[[2, 9], [9, 3]]],
    )
    two = request_of(
        1,
        output_ids=[5, 6],
        rounds=RoundCounts(drafted=[1], accepted=[0], delivered=[1]),
        candidates=[[[7]]],
    )
    c = coverage([one, two, request_of(2, tokens=3)])
    assert c.by_slot.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert (c.requests, c.unrecorded) == (2, 1)


def test_papers_recoverable_share():
    assert pytest.approx(0.592, abs=5e-4) == (75.5 - 40.0) / 60.0


def test_nothing_recorded(request_of):
    c = coverage([request_of(0, tokens=4)])
    assert (c.rounds, c.argmax_tau, c.recoverable) == (0, None, None)
    assert np.isnan(c.block_mean).all()


def test_rows_must_belong_to_the_rounds(request_of):
    r = request_of(0, [1, 1], candidates=[[[1]]])
    with pytest.raises(UserError, match="1 rounds, but 2 rounds drafted"):
        coverage([r])
