"""DCOCO's training: the drafter's own loss, plus the corrector's over a random share of the blocks (methods.md 6.5)."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.nn.functional import linear

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.lattice import Candidates, top_candidates
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.drafting.walks import Rule, greedy, select
from dcoco_bench.training.batches import Batch
from dcoco_bench.training.objective import Loss, Objective, Tables
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.unary import DECAY, unary_loss

from .head import Corrector, CorrectorConfig
from .options import K, TrainingOptions
from .transitions import Labels, transition_loss

HEAD_ROWS = 512  # states whose full-vocabulary logits are held at once


class DCOCOObjective(Objective):
    """L = L_draft + alpha L_corr, both trained from a phase-1 drafter; `options.frozen` trains the corrector alone."""

    def __init__(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        config: CorrectorConfig,
        *,
        k: int = K,
        options: TrainingOptions | None = None,
        decay: float = DECAY,
        seed: int = 42,
    ) -> None:
        super().__init__(backbone, tables, vocabulary, scale)
        self.k, self.decay, self.options = k, decay, options or TrainingOptions()
        self.corrector = Corrector(config, torch.Generator().manual_seed(seed))
        self.draws = torch.Generator().manual_seed(seed)  # which blocks L_corr sees
        if self.options.frozen:
            backbone.requires_grad_(False)
        kept = tables.embedding[vocabulary.kept] if vocabulary.pruned else tables.embedding
        self.register_buffer("candidate_rows", kept, persistent=False)
        self.candidate_rows: Tensor  # [V', d]
        if self.options.labels == "verifier":
            self.register_buffer("full_head", tables.head, persistent=False)
            self.full_head: Tensor  # [V, d]: the verifier may want a token that the draft vocabulary lacks

    def loss(self, batch: Batch, progress: float) -> Loss:
        hidden = self.slot_hidden(batch)
        logits = self.unary_logits(hidden)
        drafted = unary_loss(logits, batch, self.vocabulary, self.decay, self.soft_labels(batch))
        blocks = self._drawn(batch.supervised)
        corrected, parts = self._corrector_loss(
            hidden.flatten(0, 1)[blocks], logits.flatten(0, 1)[blocks], batch, blocks
        )
        value = self.options.alpha * corrected
        if not self.options.frozen:
            value = value + drafted.value
        return Loss(value, drafted.parts | parts)

    def draft(self, batch: Batch, rule: Rule = Rule.GREEDY, discount: float = 0.75) -> Tensor:
        hidden = self.slot_hidden(batch)
        found, scores = self.lattice(hidden, self.unary_logits(hidden), batch.anchor_ids)
        return self.vocabulary.to_target(found.pick(select(rule, *scores, discount)))

    def lattice(self, hidden: Tensor, logits: Tensor, anchor_ids: Tensor) -> tuple[Candidates, tuple[Tensor, Tensor]]:
        """Slot states [..., N, d], unary logits [..., N, V'], anchors [...] -> candidates, (first, transitions)."""
        found = top_candidates(logits, self.k)
        with self._float32():
            first = self.corrector.token_half(self.embedding[anchor_ids]) if self.corrector.config.first else None
            return found, self.corrector.scores(found.logits, self._token_halves(found.ids), hidden.float(), first)

    def _token_halves(self, ids: Tensor) -> Tensor:
        """[...] -> [..., w]. Many candidates share a token: beyond V' of them the whole table costs less."""
        if ids.numel() < len(self.candidate_rows):
            return self.corrector.token_half(self.candidate_rows[ids])
        return self.corrector.token_half(self.candidate_rows)[ids]

    def _corrector_loss(
        self, hidden: Tensor, logits: Tensor, batch: Batch, blocks: Tensor
    ) -> tuple[Tensor, dict[str, float]]:
        """Of drawn blocks: hidden [M, N, d], logits [M, N, V']."""
        if self.options.detach or self.options.frozen:
            hidden, logits = hidden.detach(), logits.detach()
        data, supervised = batch.labels.flatten(0, 1)[blocks], batch.supervised.flatten(0, 1)[blocks]
        right = data if self.options.labels == "data" else self.verifier_labels(batch, blocks)
        found, (first, transitions) = self.lattice(hidden, logits, batch.anchor_ids.flatten()[blocks])
        ranks, there = found.rank_of(self.vocabulary.to_draft(right))
        labels = Labels(ranks, there & supervised, data == right)
        with self._float32():
            scored = first if self.corrector.config.first else None
            value, mask = transition_loss(scored, transitions, labels, self.options)
        with torch.no_grad():
            walked = self.vocabulary.to_target(found.pick(greedy(first, transitions)))
            accepted = ((walked == data) & supervised).long().cumprod(-1).sum()
            real = supervised.any(-1).sum().clamp_min(1)
            pairs = mask.sum() / (supervised[:, :-1] & supervised[:, 1:]).sum().clamp_min(1)
        return value, {"corr": float(value.detach()), "walked": float(accepted / real), "pairs": float(pairs)}

    def verifier_labels(self, batch: Batch, blocks: Tensor) -> Tensor:
        """argmax of the target's LM head after each slot's data prefix, target ids [M, N].

        Slot i of an anchor at t is predicted from position t+i-1; positions past the answer repeat the last and are
        not supervised.
        """
        span = batch.final.shape[1]
        slots = torch.arange(self.config.slots, device=blocks.device)
        positions = (batch.anchors.flatten()[blocks][:, None] + slots).clamp_max(span - 1)
        rows = blocks[:, None] // batch.anchors.shape[1]
        needed, index = torch.unique(rows * span + positions, return_inverse=True)
        states = batch.final.flatten(0, 1)[needed]
        with torch.no_grad(), self._float32():
            wanted = [linear(some.float(), self.full_head).argmax(-1) for some in states.split(HEAD_ROWS)]
        return torch.cat(wanted)[index]

    def _drawn(self, supervised: Tensor) -> Tensor:
        """Indices [B * blocks] into B*n: a few supervised blocks of every answer (methods.md 6.5, point 6)."""
        rows, count, _ = supervised.shape
        noise = torch.rand(rows, count, generator=self.draws).to(supervised.device)
        order = noise.masked_fill(~supervised.any(-1), 2.0).argsort(-1)[:, : self.options.blocks]
        return (order + count * torch.arange(rows, device=order.device)[:, None]).flatten()

    def _float32(self) -> AbstractContextManager[None]:
        return torch.autocast(self.embedding.device.type, enabled=False)
