"""DFlash2's training: the drafter's own loss, plus cross-entropy over the candidates after the right predecessor."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.lattice import Candidates, top_candidates
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.drafting.walks import greedy
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, Objective, Tables, slot_weights
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.unary import DECAY, unary_loss

from .convs import add_convs, conv_shape
from .head import CandidateSelector, SelectorConfig
from .options import K, TrainingOptions


class DFlash2Objective(Objective):
    """L = L_DFlash + beta sum w CE / sum w, both with weights exp(-(i-1)/decay) (methods.md 7)."""

    def __init__(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        config: SelectorConfig,
        *,
        k: int = K,
        options: TrainingOptions | None = None,
        decay: float = DECAY,
        seed: int = 42,
    ) -> None:
        options = options or TrainingOptions()
        super().__init__(add_convs(backbone) if options.conv else backbone, tables, vocabulary, scale)
        self.k, self.decay, self.options = k, decay, options
        self.candidate_selector = CandidateSelector(config, torch.Generator().manual_seed(seed))

    def loss(self, batch: Batch, progress: float) -> Loss:
        hidden = self.slot_hidden(batch)
        logits = self.unary_logits(hidden)
        drafted = unary_loss(logits, batch, self.vocabulary, self.decay, self.soft_labels(batch))
        if self.options.detach:
            hidden, logits = hidden.detach(), logits.detach()
        selected, parts = self.selector_loss(hidden, logits, batch)
        return Loss(drafted.value + self.options.beta * selected, drafted.parts | parts)

    def selector_loss(self, hidden: Tensor, logits: Tensor, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """hidden [B, n, N, d], logits [B, n, N, V'] -> the weighted mean over supervised slots; zero where none is."""
        labels = self.vocabulary.to_draft(batch.labels)
        found = top_candidates(logits, self.k)
        if self.options.gold == "insert":
            found = with_gold(found, logits, labels)
        ranks, there = found.rank_of(labels)
        before = torch.cat([batch.anchor_ids[..., None], batch.labels[..., :-1]], dim=-1)
        with torch.autocast(self.embedding.device.type, enabled=False):
            predecessors = self.vocabulary.to_draft(before)
            edges = self.candidate_selector.edges(found.logits, found.ids, hidden.float(), predecessors)
            losses = cross_entropy(edges.flatten(0, -2), ranks.flatten(), reduction="none").view_as(ranks)
        weights = slot_weights(ranks.shape[-1], self.decay, ranks.device) * (batch.supervised & there)
        value = (losses * weights).sum() / weights.sum().clamp_min(1e-6)
        supervised = batch.supervised.sum().clamp_min(1)
        right = ((edges.argmax(-1) == ranks) & there & batch.supervised).sum() / supervised
        covered = (there & batch.supervised).sum() / supervised
        return value, {"select": float(value.detach()), "forced": float(right), "covered": float(covered)}

    def serving_backbone(self) -> BlockBackbone:
        shape = conv_shape(self.backbone)
        if shape is None:
            return super().serving_backbone()
        served = add_convs(BlockBackbone(self.config), *shape)
        served.load_state_dict(self.backbone.state_dict())
        served.fc.weight.data = self.scale.fold(self.backbone.fc.weight.detach())
        return served.eval()

    def draft(self, batch: Batch) -> Tensor:
        """The self-conditioned walk."""
        hidden = self.slot_hidden(batch)
        found, scores = self.lattice(hidden, self.unary_logits(hidden), batch.anchor_ids)
        return self.vocabulary.to_target(found.pick(greedy(*scores)))

    def lattice(self, hidden: Tensor, logits: Tensor, anchor_ids: Tensor) -> tuple[Candidates, tuple[Tensor, Tensor]]:
        """Slot states [..., N, d], unary logits [..., N, V'], anchors [...] -> candidates, (first, transitions)."""
        found = top_candidates(logits, self.k)
        anchors = self.vocabulary.to_draft(anchor_ids)
        return found, self.candidate_selector.scores(found.logits, found.ids, hidden.float(), anchors)


def with_gold(found: Candidates, logits: Tensor, labels: Tensor) -> Candidates:
    """The right token in place of the last candidate where it is none; labels [..., N], -1 stays out."""
    _, there = found.rank_of(labels)
    missing = ~there & (labels >= 0)
    gold = labels.clamp_min(0)[..., None]
    ids = torch.where(missing[..., None], gold, found.ids[..., -1:])
    values = torch.where(missing[..., None], logits.gather(-1, gold).float(), found.logits[..., -1:])
    return Candidates(torch.cat([found.ids[..., :-1], ids], -1), torch.cat([found.logits[..., :-1], values], -1))
