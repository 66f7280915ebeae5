"""Bootstrap intervals: they cover, are paired, are the same every time, and say why they are not there."""

from __future__ import annotations

import numpy as np
import pytest

from dcoco_bench.stats.intervals import (
    MAX_CLUSTERS,
    MIN_PROMPTS,
    clusters,
    estimate,
    mean_over_suites,
    mean_same_prompts,
    ratio_of_sums,
)


def test_coverage_of_the_truth():
    """A skewed ratio of sums over 40 prompts: about 95 of 100 intervals hold the true ratio 2."""
    rng = np.random.default_rng(7)
    inside = 0
    for trial in range(200):
        seconds = rng.lognormal(0.0, 0.7, 40)
        tokens = 2 * seconds * rng.gamma(4.0, 0.25, 40)
        e = estimate(ratio_of_sums(tokens, seconds, f"trial {trial % 10}"))
        inside += e.lo <= 2 <= e.hi
    assert 0.88 <= inside / 200 <= 0.99


def test_pairing_narrows_the_ratio():
    rng = np.random.default_rng(1)
    tokens = rng.lognormal(4, 1, 50)
    slow = tokens * rng.lognormal(0, 0.5, 50)
    fast = slow / 2 * rng.lognormal(0, 0.02, 50)
    paired = estimate(ratio_of_sums(tokens, fast, "s") / ratio_of_sums(tokens, slow, "s"))
    apart = estimate(ratio_of_sums(tokens, fast, "s") / ratio_of_sums(tokens, slow, "t"))
    assert paired.value == pytest.approx(2, rel=0.02)
    assert paired.hi - paired.lo < (apart.hi - apart.lo) / 5


def test_same_log_same_interval():
    rng = np.random.default_rng(3)
    top, bottom = rng.random(30), rng.random(30)
    assert estimate(ratio_of_sums(top, bottom, "s")) == estimate(ratio_of_sums(top, bottom, "s"))


def test_no_spread_gives_a_point():
    ones = np.ones(20)
    e = estimate(ratio_of_sums(3 * ones, ones, "s"))
    assert (e.value, e.lo, e.hi) == (3, 3, 3)


@pytest.mark.parametrize("n", [1, MIN_PROMPTS - 1])
def test_too_few_prompts_says_so(n):
    e = estimate(ratio_of_sums(np.ones(n), np.ones(n), "s"))
    assert e.value == 1
    assert e.lo is None
    assert f"{n} prompts" in e.reason


def test_nothing_to_divide_by():
    e = estimate(ratio_of_sums(np.ones(20), np.zeros(20), "s"))
    assert e.value is None
    assert "undefined" in e.reason
    assert estimate(ratio_of_sums(np.zeros(0), np.zeros(0), "s")).value is None


def test_undefined_in_some_resamples():
    bottom = np.zeros(20)
    bottom[0] = 1
    e = estimate(ratio_of_sums(np.ones(20), bottom, "s"))
    assert e.value == 20
    assert e.lo is None
    assert "resamples" in e.reason


def test_mean_over_suites_is_unweighted_and_narrower():
    rng = np.random.default_rng(5)
    parts = [ratio_of_sums(rng.lognormal(m, 0.5, n), np.ones(n), f"suite {m}") for m, n in ((0, 20), (1, 200))]
    e = estimate(mean_over_suites(parts))
    assert e.value == pytest.approx((parts[0].value + parts[1].value) / 2)
    assert e.n == 220
    wide = [estimate(p) for p in parts]
    expected = np.hypot(*(w.hi - w.lo for w in wide)) / 2
    assert e.hi - e.lo == pytest.approx(expected, rel=0.15)


def test_seeds_share_resamples():
    rng = np.random.default_rng(6)
    values = rng.lognormal(0, 0.5, 30)
    parts = [ratio_of_sums(values + noise, np.ones(30), "s") for noise in (0.0, 0.1, 0.2)]
    e = estimate(mean_same_prompts(parts), [p.value for p in parts])
    assert e.value == pytest.approx(values.mean() + 0.1)
    assert e.sd == pytest.approx(0.1)
    one = estimate(parts[0])
    assert e.hi - e.lo == pytest.approx(one.hi - one.lo, rel=1e-6)  # the same prompts: seeds add no information


def test_many_prompts_are_pooled():
    place, count = clusters(np.arange(5 * MAX_CLUSTERS)[::-1].copy())
    assert count == MAX_CLUSTERS
    assert np.bincount(place).tolist() == [5] * MAX_CLUSTERS
    rng = np.random.default_rng(8)
    values = rng.lognormal(0, 1, len(place))
    e = estimate(ratio_of_sums(np.bincount(place, values), np.bincount(place).astype(float), "s"))
    normal = 2 * 1.96 * values.std() / len(values) ** 0.5
    assert e.hi - e.lo == pytest.approx(normal, rel=0.15)
