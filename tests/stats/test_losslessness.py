"""Token match at T = 0: rates with an interval, where answers part, and what is left out."""

from __future__ import annotations

import pytest

from dcoco_bench.cells import Sampling
from dcoco_bench.errors import UserError
from dcoco_bench.stats.losslessness import Divergence, match, match_requests, wilson


def test_all_match(request_of):
    base = [request_of(i, tokens=10) for i in range(60)]
    m = match_requests(base, base)
    assert (m.matched, m.prompts, m.rate.value, m.rate.hi) == (60, 60, 1.0, 1.0)
    assert m.rate.lo == pytest.approx(0.9398, abs=1e-3)
    assert m.earliest is None


def test_first_divergence_and_margin(request_of):
    base = [request_of(i, tokens=100, margins=[1.0] * 57 + [0.001] * 43) for i in range(4)]
    ours = [r.model_copy(update={"margins": None}) for r in base]
    ours[2] = ours[2].model_copy(update={"output_ids": [*range(57), 999, *range(58, 100)]})
    m = match_requests(ours, base)
    assert m.matched == 3
    assert m.divergences == (Divergence("p2", 0, 57, expected=57, found=999, margin=0.001),)


def test_shorter_answer_is_a_divergence(request_of):
    m = match_requests([request_of(0, tokens=8)], [request_of(0, tokens=10)])
    assert m.earliest == Divergence("p0", 0, 8, expected=8, found=None, margin=None)


def test_later_turns_are_not_compared_after_a_divergence(request_of):
    base = [request_of(0, tokens=5, turn=0), request_of(0, tokens=5, turn=1)]
    ours = [base[0], base[1].model_copy(update={"output_ids": [9]})]
    assert [d.turn for d in match_requests(ours, base).divergences] == [1]
    ours = [r.model_copy(update={"output_ids": [9]}) for r in base]
    assert [d.turn for d in match_requests(ours, base).divergences] == [0]


def test_failed_prompts_are_left_out(request_of):
    base = [request_of(i, tokens=5) for i in range(3)]
    ours = [base[0], base[1].model_copy(update={"finish_reason": "error", "error": "gone"})]
    m = match_requests(ours, base)
    assert (m.prompts, m.matched, m.excluded) == (1, 1, 2)


def test_refusals(request_of, log_of):
    a = log_of([request_of(0, tokens=5)])
    with pytest.raises(UserError, match="T=1"):
        match(log_of([], sampling=Sampling(temperature=1.0)), a)
    b = log_of([request_of(0, tokens=5)], method="vanilla")
    b.record.suite.prompt_hash = "other"
    with pytest.raises(UserError, match="abc against other"):
        match(a, b)


def test_wilson_of_nothing():
    assert wilson(0, 0).value is None
    assert wilson(50, 80).lo == pytest.approx(0.5155, abs=1e-3)  # 50 of 80 MT-Bench answers (C36)
