"""A request's rounds from the server's report and from the stream: vllm.md section 4's own example, and its traps."""

from __future__ import annotations

from dcoco_bench.engines.base import Rounds
from dcoco_bench.engines.vllm.rounds import from_report, from_stream, undrafted

ORACLE = {"per_step_accepted": [4, 6, 6, 6, 5], "per_step_drafted": [7, 7, 7, 7, 7]}  # max_tokens 29


def test_the_report_gives_raw_counts_and_the_last_round_s_cut() -> None:
    assert from_report(ORACLE, 29) == Rounds([7] * 5, [4, 6, 6, 6, 5], [5, 7, 7, 7, 2])


def test_the_stream_gives_the_same_deliveries_and_a_lower_bound_at_the_cut() -> None:
    rounds = from_stream([1, 5, 7, 7, 7, 2], 7)
    assert rounds == Rounds([7] * 5, [4, 6, 6, 6, 1], [5, 7, 7, 7, 2])


def test_what_is_missing_is_none_and_not_zero() -> None:
    assert from_report(None, 29) is None
    assert from_report({"num_spec_steps": 5}, 29) is None
    assert from_report({"per_step_accepted": [4], "per_step_drafted": [7, 7]}, 29) is None
    assert from_report(ORACLE, 60) is None  # the steps do not add up to the output


def test_merged_chunks_are_not_passed_off_as_rounds() -> None:
    assert from_stream([1, 5, 14, 7], 7) is None
    assert from_stream([6, 7], 7) is None  # the prefill's token came with a round


def test_steps_after_the_end_are_left_out() -> None:
    assert from_report({"per_step_accepted": [2, 3], "per_step_drafted": [7, 7]}, 4) == Rounds([7], [2], [3])


def test_plain_decoding_has_undrafted_rounds() -> None:
    assert undrafted(3) == Rounds([0, 0], [0, 0], [1, 1])
    assert undrafted(1) == Rounds([], [], [])
    assert undrafted(0) == Rounds([], [], [])
