"""DSpark's calibration and its prefix scheduler."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from dcoco_bench.methods.dspark.calibration import (
    expected_calibration_error,
    prefix_confidence,
    sequential_temperatures,
)
from dcoco_bench.methods.dspark.scheduler import admit


def test_calibration_error_is_the_mean_gap() -> None:
    stated = torch.tensor([0.11, 0.12, 0.91, 0.92])
    happened = torch.tensor([False, True, True, True])
    assert expected_calibration_error(stated, happened, bins=10) == pytest.approx((abs(0.23 - 1) + abs(1.83 - 2)) / 4)


def test_temperatures_recover_a_known_miscalibration() -> None:
    """Odds overstated threefold in slot 1, understated by half in slot 2."""
    generator = torch.Generator().manual_seed(2)
    true_odds = torch.randn(20_000, 2, generator=generator) * 1.5 + 0.5
    accepts = torch.rand(20_000, 2, generator=generator) < torch.sigmoid(true_odds)
    accepted = accepts.long().cumprod(-1).sum(-1)
    stated = true_odds * torch.tensor([3.0, 0.5])
    found = sequential_temperatures(stated, accepted)
    assert found == pytest.approx([3.0, 0.5], rel=0.15)
    for slot in range(2):
        before = expected_calibration_error(prefix_confidence(stated, [1.0, 1.0])[:, slot], accepted > slot)
        after = expected_calibration_error(prefix_confidence(stated, found)[:, slot], accepted > slot)
        assert after < before / 3


def _throughput(lengths: tuple[int, ...], confidences: list[list[float]], speed: list[float]) -> float:
    expected = float(len(lengths))
    for row, length in zip(confidences, lengths, strict=True):
        survival = 1.0
        for confidence in row[:length]:
            survival *= confidence
            expected += survival
    return expected * speed[len(lengths) + sum(lengths) - 1]


def test_the_full_search_finds_the_best_throughput() -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        confidences = torch.rand(3, 3, generator=generator).tolist()
        speed = torch.rand(12, generator=generator).sort(descending=True).values.tolist()
        best = max(_throughput(lengths, confidences, speed) for lengths in product(range(4), repeat=3))
        found = admit(confidences, lambda b, s=speed: s[b - 1], stop_early=False)  # type: ignore[misc]
        assert _throughput(tuple(found), confidences, speed) == pytest.approx(best)


def test_slots_that_pay_are_admitted_and_prefixes_stay_whole() -> None:
    assert admit([[0.9, 0.9], [0.2, 0.9]], lambda b: 1.0) == [2, 2]  # verification is free
    assert admit([[0.9, 0.9], [0.2, 0.9]], lambda b: 1 / b) == [0, 0]  # every token costs a whole step
    assert admit([[0.9, 0.9], [0.2, 0.9]], lambda b: 1 / (1 + 0.3 * b)) == [2, 0]
    assert admit([], lambda b: 1.0) == []


@pytest.mark.parametrize(("stop_early", "law"), [(True, (0.7, 0.3)), (False, (0.85, 0.15))])
def test_the_paper_s_counter_example(stop_early: bool, law: tuple[float, float]) -> None:
    """Target (0.7, 0.3), draft (0.5, 0.5) over two tokens: slot 1 survives with 0.8, slot 2 with 0.9 or 0 depending
    on the token in slot 1. Looking past slot 1 admits it only when it reads "a", and the output leans to "a"."""
    speed = {1: 1.0, 2: 0.5, 3: 0.45}
    target, draft = {"a": 0.7, "b": 0.3}, {"a": 0.5, "b": 0.5}
    assert sum(min(target[x], draft[x]) for x in "ab") == pytest.approx(0.8)
    output = {"a": 0.0, "b": 0.0}
    for token, chance in draft.items():
        (length,) = admit([[0.8, 0.9 if token == "a" else 0.0]], speed.__getitem__, stop_early=stop_early)
        if length == 0:  # not verified: the target draws
            for other in "ab":
                output[other] += chance * target[other]
            continue
        accept = min(1.0, target[token] / draft[token])
        output[token] += chance * accept
        output["a"] += chance * (1 - accept)  # the residual max(0, q - p) lies on "a" alone
    assert (output["a"], output["b"]) == pytest.approx(law)
