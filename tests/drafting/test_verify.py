"""The verification rules keep the target's distribution: chi-square over many draws, and a wrong rule that fails."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.verify import (
    draw,
    target_distribution,
    uniforms,
    verify_greedy,
    verify_point_mass,
    verify_sampled,
)

TARGET = torch.tensor([0.40, 0.25, 0.20, 0.10, 0.05])
DRAFT = torch.tensor([0.10, 0.50, 0.05, 0.30, 0.05])
DRAWS = 40_000
PLAIN = Sampling(temperature=1.0)


def _first_tokens(drafts: torch.Tensor, accepted: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return torch.where(accepted > 0, drafts[:, 0], following)


def _p_value(tokens: torch.Tensor, expected: torch.Tensor = TARGET) -> float:
    counts = torch.bincount(tokens, minlength=5).double()
    kept = expected > 0
    assert counts[~kept].sum() == 0
    share = expected[kept].double() / expected[kept].double().sum()
    return float(chisquare(counts[kept].numpy(), (share * len(tokens)).numpy()).pvalue)


def _logits(slots: int) -> torch.Tensor:
    return TARGET.log().expand(DRAWS, slots + 1, 5)


ROLLS = uniforms([torch.Generator().manual_seed(i) for i in range(DRAWS)], 3, torch.device("cpu"))


@pytest.mark.parametrize("proposed", [0, 3])
def test_point_mass_rule_keeps_the_target_distribution(proposed: int) -> None:
    drafts = torch.full((DRAWS, 1), proposed)
    verdict = verify_point_mass(_logits(1), drafts, PLAIN, ROLLS)
    assert _p_value(_first_tokens(drafts, *verdict)) > 1e-3
    rate = float((verdict.accepted > 0).float().mean())
    assert rate == pytest.approx(float(TARGET[proposed]), abs=0.01)


def test_ratio_rule_keeps_the_target_distribution_and_accepts_the_overlap() -> None:
    generator = torch.Generator().manual_seed(0)
    drafts = torch.multinomial(DRAFT, DRAWS, replacement=True, generator=generator)[:, None]
    verdict = verify_sampled(_logits(1), drafts, DRAFT.expand(DRAWS, 1, 5), PLAIN, ROLLS)
    assert _p_value(_first_tokens(drafts, *verdict)) > 1e-3
    overlap = float(torch.minimum(TARGET, DRAFT).sum())
    assert float((verdict.accepted > 0).float().mean()) == pytest.approx(overlap, abs=0.01)


def test_a_wrong_rule_is_caught() -> None:
    """Sampled drafts kept with probability q, and the plain target as correction: what the rules exist to avoid."""
    generator = torch.Generator().manual_seed(0)
    drafts = torch.multinomial(DRAFT, DRAWS, replacement=True, generator=generator)
    keep = torch.rand(DRAWS, generator=generator) < TARGET[drafts]
    refill = torch.multinomial(TARGET, DRAWS, replacement=True, generator=generator)
    assert _p_value(torch.where(keep, drafts, refill)) < 1e-6


def test_the_token_after_a_whole_accepted_block_follows_the_target() -> None:
    drafts = torch.zeros(DRAWS, 2, dtype=torch.long)
    verdict = verify_point_mass(_logits(2), drafts, PLAIN, ROLLS)
    whole = verdict.accepted == 2
    assert _p_value(verdict.following[whole]) > 1e-3
    cut = verdict.following[verdict.accepted == 1]
    residual = TARGET.clone()
    residual[0] = 0
    assert _p_value(cut, residual / residual.sum()) > 1e-3


def test_greedy_accepts_the_matching_prefix_only() -> None:
    logits = torch.zeros(2, 4, 5)
    logits[0, range(4), [1, 2, 3, 4]] = 1.0
    logits[1, range(4), [4, 4, 4, 4]] = 1.0
    verdict = verify_greedy(logits, torch.tensor([[1, 2, 0], [4, 4, 4]]))
    assert verdict.accepted.tolist() == [2, 3]
    assert verdict.following.tolist() == [3, 4]


def test_what_is_not_offered_is_not_accepted() -> None:
    logits = torch.zeros(3, 4, 5)
    logits[:, range(4), [1, 2, 3, 4]] = 1.0
    drafts = torch.tensor([[1, 2, 3]] * 3)
    verdict = verify_greedy(logits, drafts, torch.tensor([0, 2, 3]))
    assert verdict.accepted.tolist() == [0, 2, 3]
    assert verdict.following.tolist() == [1, 3, 4]


@pytest.mark.parametrize("sampled", [True, False])
def test_a_slot_held_back_is_drawn_from_the_target_itself(sampled: bool) -> None:
    """Whether slot 2 is offered hangs on slot 1's token, as with a confidence. Every third row offers nothing."""
    generator = torch.Generator().manual_seed(0)
    drafts = torch.multinomial(DRAFT, 2 * DRAWS, replacement=True, generator=generator).view(DRAWS, 2)
    lengths = torch.where(drafts[:, 0] == 1, 2, 1)
    lengths[::3] = 0
    if sampled:
        verdict = verify_sampled(_logits(2), drafts, DRAFT.expand(DRAWS, 2, 5), PLAIN, ROLLS, lengths)
    else:
        verdict = verify_point_mass(_logits(2), drafts, PLAIN, ROLLS, lengths)
    assert bool((verdict.accepted <= lengths).all())
    assert _p_value(_first_tokens(drafts, *verdict)) > 1e-3
    second = torch.where(verdict.accepted > 1, drafts[:, 1], verdict.following)[verdict.accepted > 0]
    assert _p_value(second) > 1e-3
    assert _p_value(verdict.following[lengths == 0]) > 1e-3


def test_top_k_then_top_p_processing() -> None:
    probs = target_distribution(TARGET.log(), Sampling(temperature=1.0, top_k=4, top_p=0.7))
    # top-k keeps .40 .25 .20 .10 (renormalised /0.95), top-p 0.7 keeps until the mass before reaches 0.7: .40 .25 .20
    torch.testing.assert_close(probs, torch.tensor([0.40, 0.25, 0.20, 0, 0]) / 0.85)


def test_draw_never_lands_on_a_token_without_mass() -> None:
    probs = torch.tensor([[0.0, 0.5, 0.5, 0.0, 0.0]])
    edge = torch.tensor([1.0 - 1e-16])
    assert int(draw(probs, edge)) == 2
    assert int(draw(probs, torch.tensor([0.0]))) == 1


def test_a_request_s_draws_do_not_depend_on_its_neighbours() -> None:
    alone = uniforms([torch.Generator().manual_seed(7)], 4, torch.device("cpu"))
    beside = uniforms([torch.Generator().manual_seed(s) for s in (3, 7, 9)], 4, torch.device("cpu"))
    assert torch.equal(alone[0], beside[1])
