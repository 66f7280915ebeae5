"""Parity of two engines: equal text with other rounds is no parity, and a tie shows its margin."""

from __future__ import annotations

import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.stats.parity import parity


def test_equal_rounds_are_parity_whatever_was_cut_from_the_last(request_of, log_of):
    ours = log_of([request_of(i, [4, 2, 1], cut=1) for i in range(3)])
    theirs = log_of([request_of(i, [4, 2, 0]) for i in range(3)])  # the same tokens reached the user
    found = parity(ours, theirs)
    assert (found.text.value, found.rounds.value) == (1.0, 1.0)
    assert found.tau_ratio == pytest.approx(1.0)


def test_equal_text_by_other_rounds_is_no_parity(request_of, log_of):
    ours = log_of([request_of(0, [4, 2]), request_of(1, [3, 3])])
    theirs = log_of([request_of(0, [4, 2]), request_of(1, [2, 2, 1])])
    found = parity(ours, theirs)
    assert found.text.value == 1.0
    assert found.rounds.value == 0.5
    assert found.other_rounds == ("p1",)
    assert found.tau_ratio == pytest.approx((15 - 1) / 4 / ((8 + 8) / 5), rel=0.2)


def test_another_text_shows_where_and_how_near_a_tie_it_was(request_of, log_of):
    ours = log_of([request_of(0, [1, 1], output_ids=[1, 2, 3, 9, 5])])
    theirs = log_of([request_of(0, [1, 1], output_ids=[1, 2, 3, 4, 5], margins=[1.0, 1.0, 1.0, 0.01, 1.0])])
    found = parity(ours, theirs)
    assert found.text.value == 0.0
    assert found.rounds.value == 0.0
    assert [(d.index, d.margin) for d in found.divergences] == [(3, 0.01)]
    assert found.other_rounds == ()


def test_rounds_that_one_side_lacks_are_not_equal(request_of, log_of):
    found = parity(log_of([request_of(0, tokens=5)]), log_of([request_of(0, [1, 1])]))
    assert found.rounds.value == 0.0


def test_two_methods_are_not_compared(request_of, log_of):
    with pytest.raises(UserError, match="one method"):
        parity(log_of([request_of()]), log_of([request_of()], method="dcoco"))
