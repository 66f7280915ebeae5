"""The drafter's own loss, phase 1 of every method: position-weighted cross-entropy, every slot on its own."""

from __future__ import annotations

import torch
from torch import Tensor

from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, slot_weights
from dcoco_bench.training.soft import Soft

DECAY = 4.0  # gamma for blocks of 7 or 8 (DeepSpec, speculators)


def unary_loss(
    logits: Tensor, batch: Batch, vocabulary: Vocabulary, decay: float = DECAY, soft: Soft | None = None
) -> Loss:
    """sum w CE / sum w over supervised slots whose label the draft vocabulary has (methods.md 3). logits [B, n, N, V'].

    Parts: `ce`, the hard labels' alone; `slot1` and `last`, the argmax's accuracy there; `accepted`, its mean
    accepted prefix.
    """
    labels = vocabulary.to_draft(batch.labels)
    weights = slot_weights(labels.shape[-1], decay, labels.device) * (batch.supervised & (labels >= 0))
    log_probs = logits.float().log_softmax(-1)
    hard = -log_probs.gather(-1, labels.clamp_min(0)[..., None]).squeeze(-1)
    value = ce = (hard * weights).sum() / weights.sum()
    if soft is not None:
        distilled = -(soft.probs * log_probs).sum(-1)
        value = torch.lerp(ce, (distilled * weights).sum() / weights.sum(), soft.share)
    with torch.no_grad():
        hits = (logits.argmax(-1) == labels) & batch.supervised
        count = batch.supervised.sum((0, 1)).clamp_min(1)
        share = (hits.sum((0, 1)) / count).tolist()
        prefix = (hits.long().cumprod(-1).sum((0, 1)) / count).sum()
    return Loss(value, {"ce": float(ce.detach()), "slot1": share[0], "last": share[-1], "accepted": float(prefix)})
