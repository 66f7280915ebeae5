"""Serving DSpark: one parallel pass, then a low-rank correction a slot; optionally less of the block is verified."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.packing import pack_linears, packing_helps
from dcoco_bench.drafting.sequential import Correction, SequentialDrafter
from dcoco_bench.drafting.vocabulary import Vocabulary

from .heads import DSparkHead


def stepwise(head: DSparkHead, vocabulary: Vocabulary, hidden: Tensor) -> Correction:
    """The Markov head over slot states [B, N, d], reading tokens as they are chosen."""
    state: Tensor | None = None

    def correct(slot: int, previous: Tensor) -> Tensor:
        nonlocal state
        reading, state = head.markov_head.read(head.embed(previous, vocabulary), hidden[:, slot], state)
        added: Tensor = head.markov_head.markov_w2(reading)
        return added

    return correct


def log_odds(head: DSparkHead, vocabulary: Vocabulary, hidden: Tensor, anchors: Tensor, tokens: Tensor) -> Tensor:
    """Uncalibrated confidences [B, N] of slot states [B, N, d] after anchors [B] and tokens [B, N] (target ids)."""
    before = torch.cat([anchors[:, None], tokens[:, :-1]], dim=1)
    assert head.confidence_head is not None
    odds: Tensor = head.confidence_head(hidden.float(), head.embed(before, vocabulary).float())
    return odds.float()


class DSparkDrafter(SequentialDrafter):
    """`temperatures` [N] calibrate the confidences; `threshold` 0 verifies whole blocks."""

    def __init__(
        self,
        backbone: BlockBackbone,
        vocabulary: Vocabulary,
        embedding: Tensor,
        head: Tensor,
        slots: int | None,
        dspark: DSparkHead,
        *,
        sampled: bool = False,
        threshold: float = 0.0,
        temperatures: list[float] | None = None,
    ) -> None:
        super().__init__(backbone, vocabulary, embedding, head, slots, sampled=sampled)
        self.dspark = dspark.to(device=embedding.device, dtype=embedding.dtype).eval().requires_grad_(False)
        if self.dspark.confidence_head is not None:
            self.dspark.confidence_head.float()  # beside a bfloat16 target too, as in vLLM
        self.threshold = threshold
        self.calibration = torch.tensor(temperatures or [1.0] * self.config.slots, device=embedding.device)
        if packing_helps(embedding.dtype, embedding.device):
            pack_linears(self.dspark)

    def correction(self, hidden: Tensor) -> Correction:
        return stepwise(self.dspark, self.vocabulary, hidden)

    def lengths(self, hidden: Tensor, anchors: Tensor, tokens: Tensor) -> Tensor | None:
        """Up to the first slot whose calibrated confidence is below the threshold. A slot's confidence reads the
        token before it, never its own, so admission does not bend the output's law."""
        if self.threshold == 0:
            return None
        odds = log_odds(self.dspark, self.vocabulary, hidden, anchors, tokens)
        calibrated = odds / self.calibration[: tokens.shape[1]]
        return (torch.sigmoid(calibrated) >= self.threshold).long().cumprod(-1).sum(-1)

    def effective_config(self) -> dict[str, Any]:
        config = self.dspark.config
        return super().effective_config() | {
            "markov_head": config.markov_head_type,
            "rank": config.markov_rank,
            "threshold": self.threshold,
            "calibrated": bool((self.calibration != 1).any()),
            "dspark_parameters": sum(p.numel() for p in self.dspark.parameters()),
        }
