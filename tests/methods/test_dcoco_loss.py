"""L_corr: its value at the start, its masks, what it trains (methods.md 6.5)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dcoco_bench.drafting.lattice import Candidates, top_candidates
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.drafting.walks import greedy
from dcoco_bench.methods.dcoco.head import Corrector, CorrectorConfig
from dcoco_bench.methods.dcoco.objective import DCOCOObjective
from dcoco_bench.methods.dcoco.options import TrainingOptions
from dcoco_bench.methods.dcoco.transitions import Labels, pair_mask, transition_loss
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Tables
from dcoco_bench.training.scaling import FeatureScale
from tests.tiny import HIDDEN, VOCAB, backbone

M, N, K = 7, 6, 5


def _labels(seed: int = 0) -> Labels:
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.randint(0, K, (M, N), generator=generator)
    usable, agreed = (torch.rand(M, N, generator=generator) < share for share in (0.7, 0.8))
    return Labels(ranks, usable, agreed)


def test_without_a_correction_the_joint_loss_is_ln_k_above_the_row_loss() -> None:
    logits, labels = torch.randn(M, N, K), _labels()
    transitions = logits[:, 1:, None, :].expand(-1, -1, K, -1)
    joint, mask = transition_loss(None, transitions, labels, TrainingOptions(softmax="joint"))
    row, _ = transition_loss(None, transitions, labels, TrainingOptions(softmax="row"))
    each = cross_entropy(logits[:, 1:].flatten(0, 1), labels.ranks[:, 1:].flatten(), reduction="none").view(M, N - 1)
    weights = torch.exp(-torch.arange(N - 1) / 4.0) * mask
    torch.testing.assert_close(row, (each * weights).sum() / weights.sum())
    torch.testing.assert_close(joint, row + math.log(K))


def test_the_joint_loss_is_a_softmax_over_all_pairs() -> None:
    transitions, labels = (
        torch.randn(1, 2, K, K),
        Labels(*(torch.tensor([x]) for x in ([1, 4, 2], [True] * 3, [True] * 3))),
    )
    value, _ = transition_loss(None, transitions, labels, TrainingOptions(rho=2.0))
    pairs = transitions[0].flatten(1).log_softmax(-1)
    w = math.exp(-1 / 2.0)
    expected = -(pairs[0, 1 * K + 4] + w * pairs[1, 4 * K + 2]) / (1 + w)
    torch.testing.assert_close(value, expected)
    first = torch.randn(1, K)
    with_first, _ = transition_loss(first, transitions, labels, TrainingOptions(rho=2.0))
    start, v = -first.log_softmax(-1)[0, 1], math.exp(1 / 2.0)
    torch.testing.assert_close(with_first, (v * start + (1 + w) * expected) / (v + 1 + w))


def test_masks_drop_missing_ends_and_unreachable_prefixes() -> None:
    usable = torch.tensor([[True, True, False, True, True, True]])
    agreed = torch.tensor([[True, True, True, True, False, True]])
    labels = Labels(torch.zeros(1, 6, dtype=torch.long), usable, agreed)
    assert pair_mask(labels, "pair").tolist() == [[True, False, False, True, True]]
    assert pair_mask(labels, "cumulative").tolist() == [[True, False, False, False, False]]
    late = Labels(labels.ranks, torch.ones_like(usable), agreed)
    assert pair_mask(late, "cumulative").tolist() == [[True, True, True, True, False]]


def test_nothing_to_supervise_is_a_loss_of_zero() -> None:
    labels = Labels(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3, dtype=torch.bool), torch.ones(2, 3).bool())
    value, mask = transition_loss(None, torch.randn(2, 2, K, K), labels, TrainingOptions())
    assert float(value) == 0.0
    assert not mask.any()


def _batch(seed: int = 3, rows: int = 2, blocks: int = 4, span: int = 24, slots: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCAB, (rows, span + 1), generator=generator)
    anchors = torch.tensor([[4, 9, 15, 20]]).expand(rows, blocks)
    targets = anchors[..., None] + torch.arange(1, slots + 1)
    return Batch(
        torch.randn(rows, span, 2 * HIDDEN, generator=generator),
        torch.randn(rows, span, HIDDEN, generator=generator),
        anchors,
        ids.gather(1, anchors),
        ids.gather(1, targets.clamp_max(span).flatten(1)).view_as(targets),
        targets <= span,
    )


def _objective(
    vocabulary: Vocabulary | None = None, first: bool = False, k: int = 40, **options: object
) -> DCOCOObjective:
    table = torch.randn(VOCAB, HIDDEN, generator=torch.Generator().manual_seed(5))
    return DCOCOObjective(
        backbone(),
        Tables(table, table),
        vocabulary or Vocabulary.full(VOCAB),
        FeatureScale.identity(2 * HIDDEN),
        CorrectorConfig(HIDDEN, width=8, mlp_width=16, first=first),
        k=k,
        options=TrainingOptions(**options),  # type: ignore[arg-type]
    )


def _backbone_gradient(objective: DCOCOObjective, value: Tensor) -> Tensor:
    grads = torch.autograd.grad(value, list(objective.backbone.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in grads if g is not None] or [torch.zeros(1)])


def test_detach_keeps_the_corrector_s_gradient_out_of_the_backbone() -> None:
    batch = _batch()
    joint, detached = _objective(alpha=1.0), _objective(alpha=1.0, detach=True)
    for objective in (joint, detached):
        objective.corrector.mlp_out.weight.data.fill_(0.5)
    drafter_alone = _backbone_gradient(detached, _unary(detached, batch))
    torch.testing.assert_close(_backbone_gradient(detached, detached.loss(batch, 0.0).value), drafter_alone)
    moved = _backbone_gradient(joint, joint.loss(batch, 0.0).value) - drafter_alone
    assert moved.norm() > 0.05 * drafter_alone.norm()


def _unary(objective: DCOCOObjective, batch: Batch) -> Tensor:
    logits = objective.unary_logits(objective.slot_hidden(batch))
    weights = torch.exp(-torch.arange(5) / 4.0) * batch.supervised
    losses = cross_entropy(logits.flatten(0, -2), batch.labels.flatten(), reduction="none").view_as(weights)
    return (losses * weights).sum() / weights.sum()


def test_the_loss_is_the_drafter_s_plus_alpha_times_the_corrector_s() -> None:
    batch = _batch()
    for alpha in (0.5, 2.0):
        loss = _objective(alpha=alpha, blocks=4).loss(batch, 0.0)
        assert float(loss.value.detach()) == pytest.approx(loss.parts["ce"] + alpha * loss.parts["corr"], rel=1e-5)
    frozen = _objective(frozen=True, blocks=4)
    loss = frozen.loss(batch, 0.0)
    assert float(loss.value.detach()) == pytest.approx(loss.parts["corr"], rel=1e-5)
    assert {name.split(".")[0] for name, p in frozen.named_parameters() if p.requires_grad} == {"corrector"}


def test_a_pruned_vocabulary_masks_what_it_lacks_and_the_verifier_s_label_comes_from_the_full_head() -> None:
    batch, kept = _batch(), torch.arange(0, VOCAB, 2)
    objective = _objective(Vocabulary(kept, VOCAB), k=8, labels="verifier")
    blocks = torch.arange(8)
    wanted = objective.verifier_labels(batch, blocks)
    head = objective.embedding
    for block, row, anchor in ((0, 0, 4), (6, 1, 15)):
        expected = (batch.final[row, anchor : anchor + 5] @ head.T).argmax(-1)
        assert torch.equal(wanted[block], expected)
    assert (wanted % 2 == 1).any()
    logits = objective.unary_logits(objective.slot_hidden(batch)).flatten(0, 1)
    found = top_candidates(logits, 8)
    _, there = found.rank_of(objective.vocabulary.to_draft(wanted))
    assert not there[wanted % 2 == 1].any()
    assert objective.loss(batch, 0.0).value.isfinite()


def test_l_corr_sees_some_supervised_blocks_of_every_answer_and_new_ones_each_step() -> None:
    objective, supervised = _objective(blocks=3), torch.zeros(4, 10, 5, dtype=torch.bool)
    supervised[:, ::2] = True
    draws = [objective._drawn(supervised).view(4, 3) for _ in range(5)]
    for drawn in draws:
        assert torch.equal(drawn // 10, torch.arange(4)[:, None].expand(4, 3))
        assert (drawn % 2 == 0).all()
        assert all(len(set(row)) == 3 for row in drawn.tolist())
    assert len({tuple(d.flatten().tolist()) for d in draws}) > 1


@pytest.mark.parametrize("first", [False, True])
def test_every_corrector_weight_learns(first: bool) -> None:
    objective = _objective(first=first)
    objective.corrector.mlp_out.weight.data.fill_(0.1)
    objective.loss(_batch(), 0.0).value.backward()
    assert all(
        p.grad is not None and p.grad.abs().max() > 0
        for n, p in objective.corrector.named_parameters()
        if n != "mlp_out.bias"
    )


def test_a_corrector_learns_which_tokens_go_together() -> None:
    """New York, San Diego: the drafter knows both words of each place, but not which follows which."""
    generator = torch.Generator().manual_seed(0)
    places, slots, table = 6, 4, torch.randn(2 * 6, HIDDEN, generator=generator)
    corrector = Corrector(CorrectorConfig(HIDDEN, width=16, mlp_width=32), generator)
    optimizer = torch.optim.AdamW(corrector.parameters(), lr=1e-2)

    def blocks(count: int) -> tuple[Candidates, Tensor, Tensor]:
        """Slots 1..4 are drawn from words 0..5, 6..11, 0..5, 6..11; word i is followed by i+6, and that by i."""
        place = torch.randint(0, places, (count, 1), generator=generator)
        ids = place + places * (torch.arange(slots) % 2)
        logits = torch.full((count, slots, 2 * places), -9.0)
        shown = torch.randn(count, slots, places, generator=generator)
        for slot in range(slots):
            start = places * (slot % 2)
            logits[:, slot, start : start + places] = shown[:, slot]
        logits[:, 0].scatter_(1, place, 9.0)
        return top_candidates(logits, places), torch.randn(count, slots, HIDDEN, generator=generator), ids

    def scores(found: Candidates, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return corrector.scores(found.logits, corrector.token_half(table)[found.ids], hidden)

    found, hidden, ids = blocks(200)
    alone = (found.pick(greedy(*scores(found, hidden))) == ids).all(-1).float().mean()
    for _ in range(150):
        some, states, right = blocks(32)
        ranks, there = some.rank_of(right)
        loss, _ = transition_loss(None, scores(some, states)[1], Labels(ranks, there, there), TrainingOptions())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    corrected = (found.pick(greedy(*scores(found, hidden))) == ids).all(-1).float().mean()
    assert alone < 0.05
    assert corrected > 0.9
