"""DFlash's loss: position-weighted cross-entropy, every slot on its own (arXiv 2602.06036; methods.md 3)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, Objective
from dcoco_bench.training.unary import DECAY, unary_loss


class DFlashObjective(Objective):
    def __init__(self, *args: Any, decay: float = DECAY) -> None:
        super().__init__(*args)
        self.decay = decay

    def loss(self, batch: Batch, progress: float) -> Loss:
        logits = self.unary_logits(self.slot_hidden(batch))
        return unary_loss(logits, batch, self.vocabulary, self.decay, self.soft_labels(batch))

    def draft(self, batch: Batch) -> Tensor:
        return self.vocabulary.to_target(self.unary_logits(self.slot_hidden(batch)).argmax(-1))
