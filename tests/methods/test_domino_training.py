"""Training Domino: which prefix corrects which slot, its two losses and their lambda, and what is learnt and saved."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.methods.domino import METHOD
from dcoco_bench.methods.domino.objective import DominoObjective
from dcoco_bench.methods.domino.options import TrainingOptions
from dcoco_bench.training.batches import anchor_range, collate
from dcoco_bench.training.objective import Tables
from dcoco_bench.training.unary import DECAY, unary_loss
from tests.methods import cases
from tests.methods.test_domino import by_hand_corrections, head
from tests.tiny import HIDDEN, VOCAB, target_model


@pytest.mark.parametrize("pure", [1, 2])
@pytest.mark.parametrize("kept", [cases.KEPT, torch.arange(VOCAB)], ids=["pruned", "full"])
@pytest.mark.parametrize("layout", list(Layout))
def test_training_corrects_slot_i_with_the_anchor_and_slots_before_it(layout: Layout, kept: Tensor, pure: int) -> None:
    """In both layouts: the offset that predicts slot i changes, the prefix it has read (target ids) does not."""
    sequences = cases.chains(VOCAB)
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, f"gru=10,rank=7,pure={pure}", sequences, Vocabulary(kept, VOCAB), layout)
    assert isinstance(made, DominoObjective)
    made.domino.load_state_dict(head(len(kept)).state_dict())
    batch = collate(sequences[:2], [torch.tensor([4, 9]), torch.tensor([5, 7])], made.config.slots, HIDDEN)
    hidden = made.slot_hidden(batch)
    logits = made.unary_logits(hidden)
    corrected = made.corrected(hidden, logits, batch)
    assert torch.equal(corrected[:, :, :pure], logits[:, :, :pure])  # slots up to P stay the drafter's
    for row, block in ((0, 1), (1, 0)):
        read = [int(batch.anchor_ids[row, block]), *batch.labels[row, block, :-1].tolist()]
        by_hand = by_hand_corrections(made.domino, table, hidden[row, block], read)
        for slot in range(pure, made.config.slots):
            torch.testing.assert_close(
                corrected[row, block, slot], logits[row, block, slot] + by_hand[slot], rtol=1e-4, atol=1e-4
            )


def test_lambda_falls_in_a_line_to_zero() -> None:
    options = TrainingOptions(lambda0=0.8, decay_ratio=0.5)
    assert [round(options.base_share(p), 6) for p in (0.0, 0.25, 0.5, 1.0)] == [0.8, 0.4, 0.0, 0.0]
    assert [TrainingOptions().base_share(p) for p in (0.0, 0.25, 0.5, 0.75)] == [1.0, 0.5, 0.0, 0.0]


def test_the_loss_mixes_the_two_by_lambda() -> None:
    sequences = cases.chains(12)
    batch = collate([sequences[0]], [torch.tensor([4, 9])], 5, HIDDEN)
    made = cases.objective(METHOD, "gru=10,rank=7", sequences)
    assert isinstance(made, DominoObjective)
    made.domino.load_state_dict(head().state_dict())
    hidden = made.slot_hidden(batch)
    logits = made.unary_logits(hidden)
    base = unary_loss(logits, batch, made.vocabulary).value
    final = unary_loss(made.corrected(hidden, logits, batch), batch, made.vocabulary).value
    assert base.item() != pytest.approx(final.item(), rel=1e-3)
    for progress, share in ((0.0, 1.0), (0.125, 0.75), (0.5, 0.0), (0.9, 0.0)):
        mixed = (1 - share) * final + share * base
        assert made.loss(batch, progress).value.item() == pytest.approx(mixed.item(), rel=1e-5)


def test_slot_weights_are_every_method_s_unless_gamma_is_said_and_masks_may_have_holes() -> None:
    sequences = cases.chains(12)
    batch = collate([sequences[0]], [torch.tensor([4])], 5, HIDDEN)
    batch.supervised[0, 0, 2] = False
    assert TrainingOptions().gamma == DECAY
    for text, gamma in (("", DECAY), (",gamma=7", 7.0)):
        made = cases.objective(METHOD, f"gru=10,rank=7{text}", sequences)
        assert isinstance(made, DominoObjective)
        made.domino.load_state_dict(head().state_dict())
        hidden = made.slot_hidden(batch)
        log_probs = made.corrected(hidden, made.unary_logits(hidden), batch)[0, 0].log_softmax(-1)
        slots = [0, 1, 3, 4]
        weights = torch.tensor([math.exp(-slot / gamma) for slot in slots])
        costs = torch.stack([-log_probs[slot, batch.labels[0, 0, slot]] for slot in slots])
        by_hand = (weights * costs).sum() / weights.sum()
        assert made.loss(batch, 1.0).value.item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_training_teaches_the_head_what_the_drafter_cannot_know(tmp_path: Path) -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "gru=24,rank=16,decay_ratio=0.1", sequences)
    before, after = cases.train_head_alone(made, sequences, tmp_path, 80, 3e-2)
    assert before < 1.5
    # Slot 1 is the random drafter's own, so a walk never starts right; what is learnt is what follows a right start.
    assert after >= before
    batch = collate([sequences[0]], [torch.tensor([4, 6])], 5, HIDDEN)
    assert isinstance(made, DominoObjective)
    hidden = made.slot_hidden(batch)
    forced = made.corrected(hidden, made.unary_logits(hidden), batch).argmax(-1)
    assert torch.equal(forced[..., 1:], batch.labels[..., 1:])


def test_what_is_trained_is_saved_loaded_and_served(tmp_path: Path) -> None:
    sequences = cases.teacher(tmp_path / "teacher")
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, "gru=12,rank=8,lambda0=0.5", sequences)
    settings = cases.Settings(steps=40, sequences=8, anchors=8, matrix_lr=2e-2)
    trainer = cases.Trainer(made, sequences, sequences[:8], tmp_path / "run", settings)
    tau = trainer.run(lambda row: None).tau
    METHOD.save(tmp_path / "draft", made, Tables(table, table))
    target = Target(target_model())
    drafter = cases.build(METHOD, tmp_path / "draft", target, "gru=12,lambda0=0.5")
    for name, tensor in load_file(tmp_path / "draft" / "domino" / "model.safetensors").items():
        assert torch.equal(drafter.domino.state_dict()[name], tensor.float())  # type: ignore[attr-defined]
    assert tau > 1.2
    # The checkpoint is bfloat16, and so are the walk's features; drafts at near-ties may differ.
    assert cases.served_tau(drafter, target, trainer.held_out) == pytest.approx(tau, rel=0.05)


def test_a_draft_is_the_self_conditioned_walk_not_the_forced_one() -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "gru=10,rank=7", sequences)
    assert isinstance(made, DominoObjective)
    made.domino.load_state_dict(head(size=2.0).state_dict())
    first, end = anchor_range(sequences[1].answer)
    batch = collate([sequences[1]], [torch.arange(first, end)], 5, HIDDEN)
    drafted = made.draft(batch)
    hidden = made.slot_hidden(batch)
    assert not torch.equal(drafted, made.corrected(hidden, made.unary_logits(hidden), batch).argmax(-1))
    batch.labels = (batch.labels + 1) % VOCAB
    assert torch.equal(made.draft(batch), drafted)
