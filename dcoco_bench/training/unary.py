"""The drafter's own loss, phase 1 of every method: position-weighted cross-entropy, every slot on its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, slot_weights

DECAY = 4.0  # gamma for blocks of 7 or 8 (DeepSpec, speculators)


def unary_loss(logits: Tensor, batch: Batch, vocabulary: Vocabulary, decay: float = DECAY) -> Loss:
    """sum w CE / sum w over supervised slots whose label the draft vocabulary has (methods.md 3). logits [B, n, N, V'].

    Parts: `ce`; `slot1` and `last`, the argmax's accuracy there; `accepted`, its mean accepted prefix.
    """
    labels = vocabulary.to_draft(batch.labels)
    weights = slot_weights(labels.shape[-1], decay, labels.device) * (batch.supervised & (labels >= 0))
    losses = cross_entropy(logits.flatten(0, -2).float(), labels.clamp_min(0).flatten(), reduction="none")
    value = (losses.view_as(weights) * weights).sum() / weights.sum()
    with torch.no_grad():
        hits = (logits.argmax(-1) == labels) & batch.supervised
        count = batch.supervised.sum((0, 1)).clamp_min(1)
        share = (hits.sum((0, 1)) / count).tolist()
        prefix = (hits.long().cumprod(-1).sum((0, 1)) / count).sum()
    return Loss(value, {"ce": float(value.detach()), "slot1": share[0], "last": share[-1], "accepted": float(prefix)})
