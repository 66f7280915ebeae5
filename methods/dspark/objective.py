"""DSpark's training: cross-entropy with the data, total variation to the target, and the confidence's own loss."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.sequential import walk
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.training.batches import Batch, Sequence
from dcoco_bench.training.objective import Loss, Objective, Tables, slot_weights
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.soft import soft_labels
from dcoco_bench.training.unary import DECAY, unary_loss
from dcoco_bench.training.walk import accepted_prefix, every_anchor, rounds

from .calibration import sequential_temperatures
from .drafter import log_odds, stepwise
from .heads import DSparkConfig, DSparkHead
from .options import TrainingOptions


class DSparkObjective(Objective):
    """L = ce CE + tv ||P - T||_1 + conf BCE(kappa, 1 - TV), each a mean with weights exp(-(k-1)/decay), over the
    slots of a block up to its first unsupervised one (methods.md 4.3). CE leaves out labels that a pruned vocabulary
    lacks. T is the target's softmax over the draft vocabulary: what the target gives to pruned tokens is spread over
    the kept ones, so that 1 - TV overstates acceptance by about that share; calibration sees what really happens.
    """

    def __init__(
        self,
        backbone: BlockBackbone,
        tables: Tables,
        vocabulary: Vocabulary,
        scale: FeatureScale,
        config: DSparkConfig,
        *,
        options: TrainingOptions | None = None,
        decay: float = DECAY,
        seed: int = 42,
    ) -> None:
        super().__init__(backbone, tables, vocabulary, scale)
        self.decay, self.options = decay, options or TrainingOptions()
        self.dspark = DSparkHead(config, torch.Generator().manual_seed(seed), self.options.init)
        self.temperatures: list[float] | None = None  # of the confidences, once calibrated

    def loss(self, batch: Batch, progress: float) -> Loss:
        hidden = self.slot_hidden(batch)
        before = self.previous(batch)
        logits = self.corrected(hidden, before).float()
        blocks = self.prefix(batch)
        cross = unary_loss(logits, replace(batch, supervised=blocks), self.vocabulary, self.decay)
        target = soft_labels(1.0, batch, self.head_rows)
        assert target is not None
        distance = (logits.softmax(-1) - target.probs).abs().sum(-1)  # [B, n, N], 0..2
        weights = slot_weights(self.config.slots, self.decay, distance.device) * blocks
        variation = (weights * distance).sum() / weights.sum()
        accepted = 1 - distance.detach() / 2  # the rate at which verification accepts a token drawn from P
        states = hidden.detach() if self.options.detach else hidden
        assert self.dspark.confidence_head is not None
        odds = self.dspark.confidence_head(states, before).float()
        misjudged = binary_cross_entropy_with_logits(odds, accepted, reduction="none")
        confidence = (weights * misjudged).sum() / weights.sum()
        value = self.options.ce * cross.value + self.options.tv * variation + self.options.conf * confidence
        with torch.no_grad():
            tau = 1 + (accepted * blocks).cumprod(-1).sum() / blocks.any(-1).sum().clamp_min(1)
        parts = {"tv": variation, "confidence": confidence, "tau_hat": tau}
        return Loss(value, cross.parts | {name: float(part.detach()) for name, part in parts.items()})

    def calibrate(self, held_out: list[Sequence]) -> None:
        """Temperatures of the confidences, from the rounds that greedy decoding of these answers would have."""
        odds, accepted = [], []
        for sequence in held_out:
            batch = every_anchor(sequence, self.config.slots, self.config.hidden_size)
            with torch.no_grad():
                drafted, stated = self._drafted(batch)
            earned = accepted_prefix(drafted, batch)
            visited = [at for at in rounds(earned) if bool(batch.supervised[0, at].all())]  # whole blocks
            odds.append(stated[visited])
            accepted += [earned[at] for at in visited]
        if accepted:
            self.temperatures = sequential_temperatures(torch.cat(odds), torch.tensor(accepted))

    def previous(self, batch: Batch) -> Tensor:
        """e of the data token before each slot, [B, n, N, r]."""
        tokens = torch.cat([batch.anchor_ids[..., None], batch.labels[..., :-1]], dim=-1)
        return self.dspark.embed(tokens, self.vocabulary)

    def corrected(self, hidden: Tensor, before: Tensor) -> Tensor:
        """h [B, n, N, d], e [B, n, N, r] -> logits [B, n, N, V']."""
        readings = self.dspark.markov_head.unrolled(before.flatten(0, 1), hidden.flatten(0, 1))
        logits = self.unary_logits(hidden)
        # One product onto the unary logits: besides them and the sum, no M x N x V' tensor is held.
        added = self.dspark.markov_head.markov_w2.weight
        return torch.addmm(logits.flatten(0, -2), readings.flatten(0, 1), added.T).view_as(logits)

    def prefix(self, batch: Batch) -> Tensor:
        """[B, n, N] bool: this slot and all before it are supervised."""
        return batch.supervised.long().cumprod(-1).bool()

    def draft(self, batch: Batch) -> Tensor:
        """The self-conditioned walk."""
        return self._drafted(batch)[0]

    def _drafted(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Tokens [B, n, N] as target ids, and the log-odds [B*n, N] of their slots."""
        hidden, anchors = self.slot_hidden(batch).flatten(0, 1), batch.anchor_ids.flatten()
        correction = stepwise(self.dspark, self.vocabulary, hidden)
        found = walk(self.unary_logits(hidden), anchors, correction, self.vocabulary)
        tokens = self.vocabulary.to_target(found.tokens)
        odds = log_odds(self.dspark, self.vocabulary, hidden, anchors, tokens)
        return tokens.view_as(batch.labels), odds
