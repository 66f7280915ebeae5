"""DFlash's loss: position-weighted cross-entropy, every slot on its own (arXiv 2602.06036; methods.md 3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, Objective, slot_weights

DECAY = 4.0  # gamma for blocks of 7 or 8 (DeepSpec, speculators)


class DFlashObjective(Objective):
    def __init__(self, *args: Any, decay: float = DECAY) -> None:
        super().__init__(*args)
        self.decay = decay

    def loss(self, batch: Batch, progress: float) -> Loss:
        logits = self.unary_logits(self.slot_hidden(batch))  # [B, n, N, V']
        labels = self.vocabulary.to_draft(batch.labels)
        weights = slot_weights(labels.shape[-1], self.decay, labels.device) * (batch.supervised & (labels >= 0))
        losses = cross_entropy(logits.flatten(0, -2).float(), labels.clamp_min(0).flatten(), reduction="none")
        value = (losses.view_as(weights) * weights).sum() / weights.sum()
        with torch.no_grad():
            hits = (logits.argmax(-1) == labels) & batch.supervised
            count = batch.supervised.sum((0, 1)).clamp_min(1)
            share = (hits.sum((0, 1)) / count).tolist()
            prefix = (hits.long().cumprod(-1).sum((0, 1)) / count).sum()
        parts = {"ce": float(value.detach()), "slot1": share[0], "last": share[-1], "accepted": float(prefix)}
        return Loss(value, parts)

    def draft(self, batch: Batch) -> Tensor:
        return self.vocabulary.to_target(self.unary_logits(self.slot_hidden(batch)).argmax(-1))
