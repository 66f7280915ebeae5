"""What a method trains: the block backbone, its head if any, and a loss over teacher batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.config import DraftConfig
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.training.batches import Batch, Sequence
from dcoco_bench.training.blocks import block_hidden
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.soft import Soft, soft_labels


class Tables(NamedTuple):
    """The target's frozen tables."""

    embedding: Tensor  # [V, d]
    head: Tensor  # [V, d]


class Loss(NamedTuple):
    value: Tensor  # scalar
    parts: dict[str, float]  # named parts and training metrics, for the log


class Objective(nn.Module, ABC):
    """Subclasses add their head's parameters and say how logits become a loss and a draft."""

    def __init__(self, backbone: BlockBackbone, tables: Tables, vocabulary: Vocabulary, scale: FeatureScale) -> None:
        super().__init__()
        self.backbone, self.vocabulary, self.scale = backbone, vocabulary, scale
        self.config: DraftConfig = backbone.config
        self.soft_share = 0.0  # of the drafter's own loss: how much of it follows the target's distribution
        self.register_buffer("embedding", tables.embedding, persistent=False)
        self.register_buffer("head_rows", tables.head[vocabulary.kept].contiguous(), persistent=False)
        self.embedding: Tensor
        self.head_rows: Tensor

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.vocabulary = self.vocabulary.to(self.embedding.device)  # not a module, but it must follow the tables
        return self

    def slot_hidden(self, batch: Batch) -> Tensor:
        """Final-norm hidden states that predict slots 1..N, [B, n, N, d]."""
        mask = self.embedding[self.config.mask_token_id]
        shape = (*batch.anchors.shape, self.config.block_size - 1, -1)
        block = torch.cat([self.embedding[batch.anchor_ids][:, :, None], mask.expand(shape)], dim=2)
        hidden = block_hidden(self.backbone, self.scale(batch.features), batch.anchors, block)
        return hidden[:, :, self.config.layout.offsets(self.config.block_size)]

    def unary_logits(self, hidden: Tensor) -> Tensor:
        """[..., d] -> [..., V'].

        One product over all slots: a strided [B, n, N, d] would be multiplied block by block, several times slower.
        """
        return linear(hidden.flatten(0, -2).contiguous(), self.head_rows).unflatten(0, hidden.shape[:-1])

    def soft_labels(self, batch: Batch) -> Soft | None:
        return soft_labels(self.soft_share, batch, self.head_rows)

    def serving_backbone(self) -> BlockBackbone:
        """A copy that reads raw features, as checkpoints and engines do."""
        served = BlockBackbone(self.config)
        served.load_state_dict(self.backbone.state_dict())
        with torch.no_grad():
            served.fc.weight.copy_(self.scale.fold(self.backbone.fc.weight))
        return served.eval()

    def calibrate(self, held_out: list[Sequence]) -> None:
        """After training: fit what is not trained by gradient, on answers that were not trained on."""

    @abstractmethod
    def loss(self, batch: Batch, progress: float) -> Loss:
        """`progress` in 0..1 is the share of the training budget spent."""

    @abstractmethod
    def draft(self, batch: Batch) -> Tensor:
        """Greedy draft tokens as served, target ids [B, n, N]."""


def slot_weights(slots: int, decay: float, device: torch.device) -> Tensor:
    """w_i = exp(-(i-1)/decay), i = 1..N: verification stops at the first refusal, so early slots pay most."""
    return torch.exp(-torch.arange(slots, device=device) / decay)
