"""Domino's training: the drafter's loss and the corrected one, mixed by a falling lambda (methods.md 5)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.sequential import walk
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, Objective, Tables
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.unary import unary_loss

from .drafter import stepwise
from .head import DominoConfig, DominoHead
from .options import TrainingOptions


class DominoObjective(Objective):
    """L = (1 - lambda) CE(U + correction) + lambda CE(U), teacher-forced, the same slot weights in both."""

    def __init__(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        config: DominoConfig,
        *,
        options: TrainingOptions | None = None,
        seed: int = 42,
    ) -> None:
        super().__init__(backbone, tables, vocabulary, scale)
        self.options = options or TrainingOptions()
        self.domino = DominoHead(config, torch.Generator().manual_seed(seed))

    def loss(self, batch: Batch, progress: float) -> Loss:
        hidden = self.slot_hidden(batch)
        logits, soft = self.unary_logits(hidden), self.soft_labels(batch)
        share, gamma = self.options.base_share(progress), self.options.gamma
        final = unary_loss(self.corrected(hidden, logits, batch), batch, self.vocabulary, gamma, soft)
        parts = final.parts | {"lambda": share}
        if share == 0:
            return Loss(final.value, parts)
        base = unary_loss(logits, batch, self.vocabulary, gamma, soft)
        return Loss(torch.lerp(final.value, base.value, share), parts | {"base_ce": base.parts["ce"]})

    def corrected(self, hidden: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        """Logits [B, n, N, V'] of every slot after the data's own prefix. hidden [B, n, N, d], logits [B, n, N, V']."""
        pure = self.domino.config.pure_draft_prefix_len
        read = torch.cat([batch.anchor_ids[..., None], batch.labels[..., :-1]], dim=-1).flatten(0, 1)  # [M, N]
        states = self.domino.prefix_states(embedding(read, self.embedding))[:, pure:]
        narrow = self.domino.bottleneck(hidden.flatten(0, 1)[:, pure:], states)
        narrow = pad(narrow, (0, 0, pure, 0))  # zeros add nothing: slots up to P stay the drafter's
        # One product onto the unary logits: besides them and the sum, no M x N x V' tensor is held.
        summed = torch.addmm(
            logits.flatten(0, -2), narrow.flatten(0, 1), self.domino.embed_proj.get_parameter("2.weight").T
        )
        return summed.view_as(logits)

    def draft(self, batch: Batch) -> Tensor:
        """The self-conditioned walk."""
        hidden = self.slot_hidden(batch).flatten(0, 1)
        correction = stepwise(self.domino, self.embedding, hidden)
        found = walk(self.unary_logits(hidden), batch.anchor_ids.flatten(), correction, self.vocabulary)
        return self.vocabulary.to_target(found.tokens).view_as(batch.labels)
