"""LiLiCorr's training: the drafter's own loss, plus the head's over a random share of the blocks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.lattice import Candidates, top_candidates
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.drafting.walks import greedy
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, Objective, Tables
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.unary import DECAY, unary_loss

from .config import LiLiCorrConfig
from .head import LiLiCorr
from .losses import forced_rows, terms
from .options import VARIANTS, TrainingOptions


class LiLiCorrObjective(Objective):
    """L = L_DFlash + w_ce CE + w_hinge hinge + w_pen penalty; the head's gradient reaches the drafter too."""

    def __init__(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        config: LiLiCorrConfig,
        *,
        options: TrainingOptions | None = None,
        decay: float = DECAY,
        seed: int = 42,
    ) -> None:
        super().__init__(backbone, tables, vocabulary, scale)
        self.decay, self.options = decay, options or TrainingOptions()
        self.lilicorr = LiLiCorr(config, torch.Generator().manual_seed(seed))
        self.draws = torch.Generator().manual_seed(seed)  # which blocks the head's loss sees
        kept = tables.embedding[vocabulary.kept] if vocabulary.pruned else tables.embedding
        self.register_buffer("candidate_rows", kept, persistent=False)
        self.candidate_rows: Tensor  # [V', d]

    def loss(self, batch: Batch, progress: float) -> Loss:
        hidden = self.slot_hidden(batch)
        logits = self.unary_logits(hidden)
        drafted = unary_loss(logits, batch, self.vocabulary, self.decay, self.soft_labels(batch))
        blocks = self._drawn(batch.supervised)
        value, parts = self.head_loss(hidden.flatten(0, 1)[blocks], logits.flatten(0, 1)[blocks], batch, blocks)
        return Loss(drafted.value + value, drafted.parts | parts)

    def head_loss(
        self, hidden: Tensor, logits: Tensor, batch: Batch, blocks: Tensor
    ) -> tuple[Tensor, dict[str, float]]:
        """Of drawn blocks (indices [M] into B*n): hidden [M, N, d], logits [M, N, V']."""
        labels = self.vocabulary.to_draft(batch.labels.flatten(0, 1)[blocks])
        supervised = batch.supervised.flatten(0, 1)[blocks]
        found, (first, transitions) = self.lattice(hidden, logits, self.anchor_context(batch).flatten(0, 1)[blocks])
        ranks, there = found.rank_of(labels)
        with torch.autocast(self.embedding.device.type, enabled=False):
            wanted = self.target_logits(batch, blocks, found.ids)
            ce, hinge, penalty = terms(forced_rows(first, transitions, ranks), ranks, there & supervised, wanted)
        w_ce, w_hinge, w_pen = VARIANTS[self.options.variant]
        value = w_ce * ce + w_hinge * hinge + w_pen * penalty
        with torch.no_grad():
            walked = found.pick(greedy(first, transitions))
            accepted = ((walked == labels) & supervised).long().cumprod(-1).sum()
            real = supervised.any(-1).sum().clamp_min(1)
        parts = {"select": ce, "hinge": hinge, "penalty": penalty, "walked": accepted / real}
        return value, {name: float(part.detach()) for name, part in parts.items()}

    def draft(self, batch: Batch) -> Tensor:
        """The self-conditioned walk."""
        hidden = self.slot_hidden(batch)
        flat = hidden.flatten(0, 1)
        found, scores = self.lattice(flat, self.unary_logits(flat), self.anchor_context(batch).flatten(0, 1))
        return self.vocabulary.to_target(found.pick(greedy(*scores))).view_as(batch.labels)

    def lattice(self, hidden: Tensor, logits: Tensor, context: Tensor) -> tuple[Candidates, tuple[Tensor, Tensor]]:
        """Slot states [M, N, d], unary logits [M, N, V'], anchor contexts [M, d] -> candidates and their scores."""
        found = top_candidates(logits, self.lilicorr.config.lilicorr_candidate_topk)
        with torch.autocast(self.embedding.device.type, enabled=False):
            log_probs = found.logits - logits.float().logsumexp(-1, keepdim=True)
            return found, self.lilicorr.scores(self._tokens(found.ids), log_probs, hidden.float(), context.float())

    def anchor_context(self, batch: Batch) -> Tensor:
        """hidden_norm(fc(features)) of the last position before each anchor, [B, n, d]."""
        before = (batch.anchors - 1)[..., None].expand(-1, -1, batch.features.shape[-1])
        return self.backbone.context(self.scale(batch.features.gather(1, before)))

    def target_logits(self, batch: Batch, blocks: Tensor, ids: Tensor) -> Tensor:
        """The target's own logits of candidates [M, N, K] after each slot's data prefix.

        Slot i of an anchor at t is predicted from position t+i-1; positions past the answer repeat the last and are
        not supervised.
        """
        row = blocks // batch.anchors.shape[1]
        positions = batch.anchors.flatten()[blocks][:, None] + torch.arange(ids.shape[1], device=ids.device)
        states = batch.final[row[:, None], positions.clamp_max(batch.final.shape[1] - 1)].float()  # [M, N, d]
        return (embedding(ids, self.head_rows).float() @ states[..., None]).squeeze(-1)

    def _tokens(self, ids: Tensor) -> Tensor:
        """[...] -> [..., w]. Many candidates share a token: beyond V' of them the whole table costs less."""
        if ids.numel() < len(self.candidate_rows):
            return self.lilicorr.project_tokens(self.candidate_rows[ids])
        return embedding(ids, self.lilicorr.project_tokens(self.candidate_rows))

    def _drawn(self, supervised: Tensor) -> Tensor:
        """Indices [B * blocks] into B*n: a few supervised blocks of every answer."""
        rows, count, _ = supervised.shape
        noise = torch.rand(rows, count, generator=self.draws).to(supervised.device)
        order = noise.masked_fill(~supervised.any(-1), 2.0).argsort(-1)[:, : self.options.blocks]
        return (order + count * torch.arange(rows, device=order.device)[:, None]).flatten()
