"""Counters as vLLM exposes them: summed over engines, by position, and without what only looks like a counter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcoco_bench.engines.vllm.metrics import parse_counters

TEXT = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 11.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 4.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 10.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m",position="0"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 8.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 29.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
"""


def test_counters_are_summed_over_engines_and_kept_by_position() -> None:
    assert parse_counters(TEXT) == {
        "vllm:spec_decode_num_drafts_total": 15.0,
        "vllm:spec_decode_num_accepted_tokens_per_pos_total[0]": 13.0,
        "vllm:spec_decode_num_accepted_tokens_per_pos_total[1]": 8.0,
        "vllm:generation_tokens_total": 29.0,
    }


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="ascii"))
def test_a_damaged_answer_is_an_error_or_a_number_from_the_text(at: int, letter: str) -> None:
    try:
        found = parse_counters(TEXT[:at] + letter + TEXT[at + 1 :])
    except ValueError:
        return
    assert all(isinstance(value, float) for value in found.values())


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_counters("vllm:generation_tokens_total{engine= 3")
