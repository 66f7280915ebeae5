"""Training DSpark: pruned vocabularies, masks with holes, its own measure of tau, and the loss as published."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.methods.dspark import METHOD
from dcoco_bench.methods.dspark.objective import DSparkObjective
from dcoco_bench.training.batches import Batch, Sequence, collate
from tests.methods import cases
from tests.methods.test_dspark import head
from tests.tiny import HIDDEN, VOCAB

DECAY = 4.0


def _seeded(alphabet: int) -> list[Sequence]:
    """Answers whose final states are random, so that the target's distributions differ from slot to slot."""
    sequences = cases.chains(alphabet)
    generator = torch.Generator().manual_seed(4)
    for sequence in sequences:
        sequence.features[:, -HIDDEN:] = torch.randn(len(sequence.features), HIDDEN, generator=generator).bfloat16()
    return sequences


@torch.no_grad()
def _by_hand(made: DSparkObjective, batch: Batch, slots: list[int]) -> dict[str, float]:
    """The terms of one block over `slots` (0-based), from the logits."""
    hidden, before = made.slot_hidden(batch), made.previous(batch)
    logits, kept = made.corrected(hidden, before), made.vocabulary.kept.tolist()
    assert made.dspark.confidence_head is not None
    odds = made.dspark.confidence_head(hidden, before)
    sums, weights, labelled, survival, tau = {"ce": 0.0, "tv": 0.0, "conf": 0.0}, 0.0, 0.0, 1.0, 1.0
    for slot in slots:
        weight, label = math.exp(-slot / DECAY), int(batch.labels[0, 0, slot])
        drafted = logits[0, 0, slot].softmax(-1)
        wanted = (made.head_rows @ batch.final[0, int(batch.anchors[0, 0]) + slot]).softmax(-1)  # the kept rows
        gap, stated = float((drafted - wanted).abs().sum()), float(torch.sigmoid(odds[0, 0, slot]))
        rate = 1 - gap / 2
        sums["tv"] += weight * gap
        sums["conf"] -= weight * (rate * math.log(stated) + (1 - rate) * math.log(1 - stated))
        weights += weight
        if label in kept:
            sums["ce"] -= weight * math.log(float(drafted[kept.index(label)]))
            labelled += weight
        survival *= rate
        tau += survival
    return {
        "ce": sums["ce"] / labelled,
        "tv": sums["tv"] / weights,
        "confidence": sums["conf"] / weights,
        "tau_hat": tau,
    }


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "full"])
def test_every_term_is_by_hand_over_the_slots_before_a_hole(layout: Layout, pruned: bool) -> None:
    sequences = _seeded(12)
    vocabulary = Vocabulary(cases.KEPT, VOCAB) if pruned else Vocabulary.full(VOCAB)
    made = cases.objective(METHOD, "rank=7", sequences, vocabulary, layout)
    assert isinstance(made, DSparkObjective)
    made.dspark.load_state_dict(head(vocab=len(vocabulary), previous=len(vocabulary) + pruned).state_dict())
    outside = 0
    for anchor in (4, 7):
        batch = collate([sequences[0]], [torch.tensor([anchor])], made.config.slots, HIDDEN)
        batch.supervised[0, 0, 3] = False  # what follows is no slot of the block's prefix either
        outside += int((vocabulary.to_draft(torch.cat([batch.anchor_ids, batch.labels[0, :, :3]], dim=1)) < 0).sum())
        found, expected = made.loss(batch, 0.0), _by_hand(made, batch, [0, 1, 2])
        for name, value in expected.items():
            assert found.parts[name] == pytest.approx(value, rel=1e-4), name
        total = 0.1 * expected["ce"] + 0.9 * expected["tv"] + expected["confidence"]
        assert found.value.item() == pytest.approx(total, rel=1e-4)
    assert (outside > 0) is pruned  # labels and tokens before a slot that the draft vocabulary lacks took part


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "full"])
def test_the_published_loss_falls_and_every_part_of_the_head_learns(tmp_path: Path, pruned: bool) -> None:
    sequences = _seeded(12)
    vocabulary = Vocabulary(cases.KEPT, VOCAB) if pruned else Vocabulary.full(VOCAB)
    made = cases.objective(METHOD, "rank=8,head=gated", sequences, vocabulary)
    assert isinstance(made, DSparkObjective)
    batch = collate(sequences[:4], [torch.tensor([4, 6, 9])] * 4, made.config.slots, HIDDEN)
    before, start = made.loss(batch, 0.0), {n: t.clone() for n, t in made.dspark.state_dict().items()}
    settings = cases.Settings(steps=60, sequences=8, anchors=8, lr=2e-2, matrix_lr=2e-2)
    cases.Trainer(made, sequences, sequences[:2], tmp_path, settings).run(lambda row: None)
    after = made.loss(batch, 1.0)
    assert after.value.item() < before.value.item() - 0.1  # the confidence's own term stops at its labels' entropy
    assert after.parts["tv"] < 0.85 * before.parts["tv"]
    assert after.parts["tau_hat"] > before.parts["tau_hat"]
    assert [n for n, t in made.dspark.state_dict().items() if torch.equal(t, start[n])] == []


def test_a_wide_start_teaches_the_head_in_the_steps_that_the_published_one_wastes(tmp_path: Path) -> None:
    """80 steps at the trainer's own rate; the backbone is random, so what is learnt is the head's."""
    taus, spreads = [], []
    for text in ("", ",init=1"):
        sequences = cases.chains(12)
        made = cases.objective(METHOD, f"rank=64,ce=1,tv=0,conf=0{text}", sequences)
        assert isinstance(made, DSparkObjective)
        markov = made.dspark.markov_head
        spreads += [t.weight.detach().std().item() for t in (markov.markov_w1, markov.markov_w2)]
        taus.append(cases.train_head_alone(made, sequences, tmp_path / f"run{text}", 80, 1e-3)[1])
    assert spreads == pytest.approx([0.02, 0.02, 1.0, 0.02], rel=0.1)
    assert taus[0] < 1.2
    assert taus[1] > 1.8


def test_the_markov_head_is_as_wide_as_published_from_2560_up() -> None:
    from dcoco_bench.methods.dspark import _default_rank

    assert [_default_rank(d) for d in (576, 2560, 4096, 8192)] == [64, 256, 256, 256]
