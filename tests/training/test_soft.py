"""Soft labels are the target's own next-token distribution, and training on them alone recovers it."""

from __future__ import annotations

import torch
from torch import Tensor

from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.soft import Soft, soft_labels
from dcoco_bench.training.unary import unary_loss

HIDDEN, VOCAB, SLOTS = 6, 11, 3


def _batch(span: int = 9) -> tuple[Batch, Tensor]:
    g = torch.Generator().manual_seed(0)
    final = torch.randn(2, span, HIDDEN, generator=g)
    anchors = torch.tensor([[2, 3], [4, 6]])
    labels = torch.randint(0, VOCAB, (2, 2, SLOTS), generator=g)
    supervised = anchors[..., None] + torch.arange(1, SLOTS + 1) < span
    batch = Batch(torch.zeros(2, span, 1), final, anchors, anchors, labels, supervised)
    return batch, torch.randn(VOCAB, HIDDEN, generator=g)


def test_slot_i_is_what_the_target_says_at_t_plus_i_minus_1() -> None:
    batch, head = _batch()
    soft = soft_labels(0.5, batch, head)
    assert soft is not None
    for row in range(2):
        for block in range(2):
            for i in range(SLOTS):
                at = min(int(batch.anchors[row, block]) + i, batch.final.shape[1] - 1)
                torch.testing.assert_close(
                    soft.probs[row, block, i], (head @ batch.final[row, at]).softmax(-1), rtol=1e-5, atol=1e-6
                )
    assert soft_labels(0.0, batch, head) is None


def test_the_loss_mixes_by_share_and_its_minimum_at_share_one_is_the_target() -> None:
    batch, head = _batch()
    vocabulary = Vocabulary.full(VOCAB)
    soft = soft_labels(1.0, batch, head)
    assert soft is not None
    logits = torch.randn(2, 2, SLOTS, VOCAB, generator=torch.Generator().manual_seed(1))

    def value(share: float) -> Tensor:
        return unary_loss(logits, batch, vocabulary, 4.0, Soft(share, soft.probs)).value

    torch.testing.assert_close(value(0.0), unary_loss(logits, batch, vocabulary, 4.0).value)
    torch.testing.assert_close(value(0.25), 0.75 * value(0.0) + 0.25 * value(1.0))
    best = soft.probs.log().requires_grad_()
    unary_loss(best, batch, vocabulary, 4.0, soft).value.backward()
    assert best.grad is not None
    assert best.grad.abs().max() < 1e-6
