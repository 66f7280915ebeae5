"""Statistics of points: clusters are prompts, pairs are common requests, failures and seeds are handled."""

from __future__ import annotations

import math
import random

import pytest

from dcoco_bench.cells import Sampling
from dcoco_bench.stats.acceptance import acceptance
from dcoco_bench.stats.paired import measure, paired_ratio


def requests(request_of, speed, seed=0, prompts=20, turns=1, accepted=True):
    luck = random.Random(seed)
    made = []
    for i in range(prompts):
        for turn in range(turns):
            hits = [luck.randrange(5) for _ in range(6)] if accepted else None
            tokens = 1 + sum(h + 1 for h in hits) if hits else 20
            seconds = tokens / speed * (1 + (i % 5) / 10)
            made.append(request_of(i, hits, tokens=tokens, turn=turn, first_token=0.01 * seconds, end=seconds))
    return made


def test_measured_values_are_those_of_the_summaries(request_of, log_of):
    log = log_of(requests(request_of, 50, turns=2))
    a = acceptance(log.requests)
    assert measure([log], "tau").estimate.value == pytest.approx(a.tau)
    assert measure([log], "tau_raw").estimate.value == pytest.approx(a.tau_raw)
    assert measure([log], "tau_request").estimate.value == pytest.approx(a.tau_request)
    assert measure([log], "tau_request_raw").estimate.value == pytest.approx(a.tau_request_raw)
    assert measure([log], "acceptance_rate").estimate.value == pytest.approx(a.acceptance_rate)
    tps = measure([log], "per_stream_tps").estimate
    assert tps.value == pytest.approx(log.throughput.per_stream_tps)
    assert measure([log], "decode_tps").estimate.value == pytest.approx(log.throughput.decode_tps)
    assert measure([log], "round_time").estimate.value == pytest.approx(a.tau / tps.value)
    assert tps.n == 20  # prompts, not requests: turns are drawn together
    assert tps.lo < tps.value < tps.hi


def test_speedup_uses_common_requests(request_of, log_of):
    base = requests(request_of, 10, accepted=False)
    ours = [r.model_copy(update={"end": r.end / 2}) for r in base]
    ours[3] = ours[3].model_copy(update={"finish_reason": "error", "error": "gone", "end": 900.0})
    base[7] = base[7].model_copy(update={"end": math.nan})
    result = paired_ratio([log_of(ours)], [log_of(base, method="vanilla")], "per_stream_tps").estimate
    assert result.value == pytest.approx(2)
    assert result.n == 18
    assert (result.lo, result.hi) == (pytest.approx(2), pytest.approx(2))


def test_one_request_only(request_of, log_of):
    log, base = (
        log_of(requests(request_of, 20, prompts=1)),
        log_of(requests(request_of, 10, prompts=1), method="vanilla"),
    )
    result = paired_ratio([log], [base], "per_stream_tps").estimate
    assert result.value == pytest.approx(2)
    assert "1 prompts" in result.reason


def test_other_prompts_are_refused(request_of, log_of):
    log, base = log_of(requests(request_of, 20)), log_of(requests(request_of, 10), method="vanilla")
    base.record.suite.prompt_hash = "other"
    assert "abc against other" in paired_ratio([log], [base], "per_stream_tps").estimate.reason


def test_seeds_mean_and_deviation(request_of, log_of):
    hot = Sampling(temperature=1.0)
    logs = [log_of(requests(request_of, v, seed=s), seed=s, sampling=hot) for s, v in enumerate((40, 50, 60))]
    base = [log_of(requests(request_of, 10, seed=9 + s), seed=s, sampling=hot, method="vanilla") for s in range(3)]
    e = measure(logs, "per_stream_tps").estimate
    per_seed = [log.throughput.per_stream_tps for log in logs]
    assert e.value == pytest.approx(sum(per_seed) / 3)
    assert e.seeds == 3
    assert e.sd == pytest.approx(10, rel=0.2)
    ratio = paired_ratio(logs, base, "per_stream_tps").estimate
    assert ratio.seeds == 3
    assert ratio.value == pytest.approx(5, rel=0.05)
    assert paired_ratio(logs[:1], base[1:], "per_stream_tps").estimate.reason == "no common seed"


def test_vanilla_tau_and_rate(request_of, log_of):
    log = log_of(requests(request_of, 10, accepted=False), method="vanilla")
    assert measure([log], "tau").estimate.value == 1
    assert measure([log], "acceptance_rate").estimate.value is None
    drafting = log_of(requests(request_of, 30))
    assert paired_ratio([drafting], [log], "tau").estimate.value == pytest.approx(acceptance(drafting.requests).tau)


def test_missing_rounds_and_zero_rounds(request_of, log_of):
    assert measure([log_of(requests(request_of, 10, accepted=False))], "tau").estimate.reason == (
        "the engine gave no rounds"
    )
    silent = log_of([request_of(i, []) for i in range(20)])
    e = measure([silent], "tau").estimate
    assert e.value is None
    assert e.reason == "no round with a draft token"


def test_failed_cell(request_of, log_of):
    log = log_of([request_of(0, tokens=0, finish_reason="error", error="gone")])
    assert measure([log], "tau").estimate.value is None
    assert log.unusable == "failed: no successful request"


def test_truncated_and_inactive_cells(request_of, log_of):
    """6 of 80 prompts is no result (C04), and neither is a drafter that never has a token accepted (C02)."""
    assert log_of(requests(request_of, 10, prompts=6), prompts=80).unusable == "truncated: 6 of 80 prompts answered"
    idle = log_of([request_of(i, [0, 0, 0]) for i in range(10)])
    assert idle.unusable == "drafter inactive: 0 of 120 draft tokens accepted"
    assert log_of(requests(request_of, 10)).unusable is None
