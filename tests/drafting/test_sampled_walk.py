"""The drawn walk: each step's law is the softmax of its row, and the ranks follow it."""

from __future__ import annotations

from itertools import product

import torch
from scipy.stats import chisquare

from dcoco_bench.drafting.sampled_walk import sample

N, K, TEMPERATURE = 3, 4, 0.7


def test_the_walk_is_the_step_by_step_draw_and_reports_its_own_law() -> None:
    generator = torch.Generator().manual_seed(0)
    first, transitions = (3 * torch.randn(5, *shape, generator=generator) for shape in ((K,), (N - 1, K, K)))
    rolls = torch.rand(5, N, generator=generator, dtype=torch.float64)
    ranks, probs = sample(first, transitions, TEMPERATURE, rolls)
    for b in range(5):
        row = first[b]
        for slot in range(N):
            law = (row / TEMPERATURE).softmax(-1)
            torch.testing.assert_close(probs[b, slot], law)
            chosen = int((law.double().cumsum(-1) <= rolls[b, slot]).sum())
            assert int(ranks[b, slot]) == chosen
            if slot < N - 1:
                row = transitions[b, slot, chosen]


def test_whole_paths_follow_the_product_of_the_laws() -> None:
    generator = torch.Generator().manual_seed(1)
    first, transitions = torch.randn(1, K, generator=generator), torch.randn(1, N - 1, K, K, generator=generator)
    draws = 20_000
    rolls = torch.rand(draws, N, generator=generator, dtype=torch.float64)
    ranks, _ = sample(first.expand(draws, -1), transitions.expand(draws, -1, -1, -1), 1.0, rolls)
    counts = torch.bincount((ranks * torch.tensor([K * K, K, 1])).sum(-1), minlength=K**N)
    expected = [
        float(first[0].softmax(-1)[a] * transitions[0, 0, a].softmax(-1)[b] * transitions[0, 1, b].softmax(-1)[c])
        for a, b, c in product(range(K), repeat=N)
    ]
    assert min(expected) * draws > 5
    scaled = torch.tensor(expected, dtype=torch.float64)
    assert chisquare(counts.numpy(), (scaled / scaled.sum() * draws).numpy()).pvalue > 1e-3
