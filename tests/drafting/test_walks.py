"""Candidates and the three selection rules against enumeration (methods.md 6.3, 12.4)."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from dcoco_bench.drafting.lattice import top_candidates
from dcoco_bench.drafting.walks import Rule, best_path, greedy, select


def _grid(seed: int, slots: int = 5, k: int = 3, rows: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, k, generator=generator), torch.randn(rows, slots - 1, k, k, generator=generator)


def _enumerated(first: Tensor, transitions: Tensor, discount: float) -> list[tuple[int, ...]]:
    """Each row's best of all K^N paths."""
    slots, k = transitions.shape[1] + 1, first.shape[1]
    found = []
    for row in range(len(first)):

        def value(path: tuple[int, ...], row: int = row) -> float:
            steps = (discount ** (p + 1) * float(transitions[row, p, path[p], path[p + 1]]) for p in range(slots - 1))
            return float(first[row, path[0]]) + sum(steps)

        found.append(max(product(range(k), repeat=slots), key=value))
    return found


@pytest.mark.parametrize("discount", [1.0, 0.75, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_path_is_the_best_of_all_paths(discount: float, seed: int) -> None:
    first, transitions = _grid(seed)
    assert [tuple(r) for r in best_path(first, transitions, discount).tolist()] == _enumerated(
        first, transitions, discount
    )


def test_the_discount_runs_from_greedy_to_global_sum() -> None:
    first, transitions = _grid(9, slots=8, k=6, rows=64)
    walked = greedy(first, transitions)
    assert torch.equal(best_path(first, transitions, 0.0), walked)
    assert torch.equal(best_path(first, transitions, 1e-9), walked)
    whole = select(Rule.GLOBAL_SUM, first, transitions, 0.75)
    assert torch.equal(select(Rule.GEOMETRIC, first, transitions, 1.0), whole)
    assert not torch.equal(whole, walked)
    between = select(Rule.GEOMETRIC, first, transitions, 0.75)
    assert not torch.equal(between, walked)
    assert not torch.equal(between, whole)


def test_greedy_takes_the_best_successor_of_what_it_chose() -> None:
    first = torch.tensor([[0.0, 2.0]])
    transitions = torch.tensor([[[[9.0, 0.0], [1.0, 1.5]], [[0.0, 9.0], [3.0, 3.0]]]])
    assert greedy(first, transitions).tolist() == [[1, 1, 0]]  # the tie at the end goes to the lower rank


def test_rows_and_leading_dimensions_do_not_mix() -> None:
    first, transitions = _grid(3, rows=6)
    for rule in Rule:
        whole = select(rule, first.view(2, 3, -1), transitions.view(2, 3, *transitions.shape[1:]), 0.75)
        alone = [select(rule, first[r : r + 1], transitions[r : r + 1], 0.75)[0] for r in range(6)]
        assert torch.equal(whole.flatten(0, 1), torch.stack(alone))


@pytest.mark.parametrize("rule", list(Rule))
def test_a_block_of_one_slot_is_its_best_candidate(rule: Rule) -> None:
    first = torch.tensor([[0.5, 3.0, 1.0]])
    assert select(rule, first, torch.zeros(1, 0, 3, 3), 0.75).tolist() == [[1]]


def test_candidates_descend_and_start_with_the_argmax_even_among_ties() -> None:
    logits = torch.randn(2, 3, 40)
    logits[0, 0, [31, 7, 22]] = 9.0
    logits[1, 1] = 0.0  # more ties than candidates
    logits[1, 2, 5:] = 4.0
    found = top_candidates(logits, 4)
    assert torch.equal(found.ids[..., 0], logits.argmax(-1))
    assert torch.equal(found.logits, logits.gather(-1, found.ids))
    assert (found.logits.diff(dim=-1) <= 0).all()
    assert all(len(set(slot)) == 4 for slot in found.ids.flatten(0, -2).tolist())
    assert set(found.ids[0, 0, :3].tolist()) == {7, 22, 31}


def test_rank_of_finds_candidates_and_says_what_is_missing() -> None:
    found = top_candidates(torch.tensor([[1.0, 4.0, 3.0, 2.0], [9.0, 8.0, 1.0, 0.0]]), 2)
    ranks, there = found.rank_of(torch.tensor([2, -1]))
    assert (int(ranks[0]), there.tolist()) == (1, [True, False])
    assert found.pick(torch.tensor([1, 0])).tolist() == [2, 0]
