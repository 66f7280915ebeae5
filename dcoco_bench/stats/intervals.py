"""Bootstrap intervals over prompts. Every statistic of the suite is built from ratios of per-prompt sums.

A prompt is the cluster: all its turns and all its seeds are drawn together. A statistic is carried as `Draws`: its
value, its value in every resample, and its value with each prompt left out. Two cells that share prompts share the
resamples, so a ratio of their Draws is a paired comparison (`measurement.md` section 2.3). Intervals are BCa
(Efron 1987), which corrects the percentile interval for bias and skew; ratios over few prompts have both.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from dcoco_bench.stats.requests import Floats, Ints

RESAMPLES = 2000
LEVEL = 0.95
MIN_PROMPTS = 8  # below this a bootstrap interval is far too narrow to be shown
MAX_CLUSTERS = 2048  # more prompts are pooled round robin: the same variance, bounded memory


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, or the reason why one of them is missing. `sd`: over seeds, ddof = 1."""

    value: float | None
    lo: float | None = None
    hi: float | None = None
    n: int = 0  # prompts
    reason: str = ""
    seeds: int = 1
    sd: float | None = None


@dataclass(frozen=True)
class Draws:
    """`resampled` [RESAMPLES]; `left_out`: one array [prompts] for every independent set of prompts."""

    value: float
    resampled: Floats
    left_out: tuple[Floats, ...]

    @property
    def n(self) -> int:
        return sum(len(block) for block in self.left_out)

    def __truediv__(self, other: Draws) -> Draws:
        """Paired ratio: both sides must come from the same prompts in the same order."""
        with np.errstate(divide="ignore", invalid="ignore"):
            blocks = tuple(a / b for a, b in zip(self.left_out, other.left_out, strict=True))
            value = self.value / other.value if other.value else math.nan
            return Draws(value, self.resampled / other.resampled, blocks)

    def __sub__(self, other: Draws) -> Draws:
        """Paired difference, as `/`."""
        blocks = tuple(a - b for a, b in zip(self.left_out, other.left_out, strict=True))
        return Draws(self.value - other.value, self.resampled - other.resampled, blocks)

    def scaled(self, factor: float) -> Draws:
        return Draws(self.value * factor, self.resampled * factor, tuple(b * factor for b in self.left_out))


def clusters(prompt: Ints) -> tuple[Ints, int]:
    """Cluster of every request, and their number; prompts are numbered in order, without gaps."""
    _, place = np.unique(prompt, return_inverse=True)
    count = int(place.max()) + 1 if len(place) else 0
    return place.astype(np.int64) % MAX_CLUSTERS, min(count, MAX_CLUSTERS)


def ratio_of_sums(top: Floats, bottom: Floats, label: str) -> Draws:
    """Draws of sum(top) / sum(bottom), both given per prompt [P].

    `label` names the prompt set (the suite): it seeds the resamples, so equal labels are paired and others independent.
    """
    weights = _weights(len(top), zlib.crc32(label.encode()))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = (weights @ top) / (weights @ bottom)
        left_out = (top.sum() - top) / (bottom.sum() - bottom)
        value = float(top.sum() / bottom.sum()) if bottom.sum() else math.nan
    return Draws(value, resampled, (left_out,))


def constant(value: float, like: Draws) -> Draws:
    """A number that no resample changes, such as vanilla's tau, shaped to be divided by `like`."""
    blocks = tuple(np.full_like(block, value) for block in like.left_out)
    return Draws(value, np.full_like(like.resampled, value), blocks)


def mean_same_prompts(parts: Sequence[Draws]) -> Draws:
    """Mean over seeds: the parts share their prompts."""
    blocks = tuple(np.mean(together, axis=0) for together in zip(*(p.left_out for p in parts), strict=True))
    return Draws(math.fsum(p.value for p in parts) / len(parts), np.mean([p.resampled for p in parts], axis=0), blocks)


def mean_over_suites(parts: Sequence[Draws]) -> Draws:
    """Unweighted mean over suites: the parts have prompts of their own."""
    value = math.fsum(p.value for p in parts) / len(parts)
    blocks = tuple(value + (block - p.value) / len(parts) for p in parts for block in p.left_out)
    return Draws(value, np.mean([p.resampled for p in parts], axis=0), blocks)


def estimate(draws: Draws, seeds: Sequence[float] = ()) -> Estimate:
    """The 95 % BCa interval of a statistic, or why there is none. `seeds`: the value of each seed, if several."""
    sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
    shared = {"n": draws.n, "seeds": max(len(seeds), 1), "sd": sd}
    if not math.isfinite(draws.value):
        return Estimate(None, reason="undefined: nothing to divide by", **shared)  # type: ignore[arg-type]
    smallest = min((len(block) for block in draws.left_out), default=0)
    if smallest < MIN_PROMPTS:
        reason = f"no interval: {smallest} prompts, at least {MIN_PROMPTS} needed"
        return Estimate(draws.value, reason=reason, **shared)  # type: ignore[arg-type]
    if not (np.isfinite(draws.resampled).all() and all(np.isfinite(b).all() for b in draws.left_out)):
        return Estimate(draws.value, reason="no interval: undefined in some resamples", **shared)  # type: ignore[arg-type]
    lo, hi = _bca(draws)
    return Estimate(draws.value, lo, hi, **shared)  # type: ignore[arg-type]


def _bca(draws: Draws) -> tuple[float, float]:
    resampled, tail = draws.resampled, (1 - LEVEL) / 2
    below = np.mean(resampled < draws.value) + np.mean(resampled == draws.value) / 2
    if not 0 < below < 1:  # the value is outside all resamples: no bias correction exists
        lo, hi = np.quantile(resampled, [tail, 1 - tail])
        return float(lo), float(hi)
    influence = np.concatenate([(len(b) - 1) / len(b) * (b.mean() - b) for b in draws.left_out])
    power = float(np.sum(influence**2)) ** 1.5
    acceleration = float(np.sum(influence**3)) / (6 * power) if power > 0 else 0.0
    bias, z = float(stats.norm.ppf(below)), float(stats.norm.ppf(1 - tail))
    levels = [float(stats.norm.cdf(bias + (bias + s) / (1 - acceleration * (bias + s)))) for s in (-z, z)]
    lo, hi = np.quantile(resampled, levels)
    return float(lo), float(hi)


@lru_cache(maxsize=16)
def _weights(prompts: int, seed: int) -> Floats:
    """How often each prompt is drawn in each resample [RESAMPLES, prompts]."""
    rng = np.random.default_rng([seed, prompts])
    if not prompts:
        return np.zeros((RESAMPLES, 0))
    return rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES).astype(np.float64)
