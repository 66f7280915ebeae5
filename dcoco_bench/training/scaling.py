"""Well-conditioned features for training, at no cost when serving: the scaling folds into `fc`.

A target's tapped states share a large constant part (half of their energy or more) and differ in size by layer and by
dimension (10x and more). Training sees x' = D^-1 P x, where P removes the mean's direction and D is the standard
deviation left in each dimension; serving uses fc D^-1 P, a matrix of the same shape.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dcoco_bench.training.batches import Sequence

SAMPLE = 256  # sequences to estimate from; tens of thousands of positions


class FeatureScale(nn.Module):
    """`direction` [D] unit vector (or zeros: nothing removed), `deviation` [D]; saved with the training state."""

    def __init__(self, direction: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("direction", direction)
        self.register_buffer("deviation", deviation)
        self.direction: Tensor
        self.deviation: Tensor

    @classmethod
    def identity(cls, width: int) -> FeatureScale:
        return cls(torch.zeros(width), torch.ones(width))

    @classmethod
    def estimate(cls, sequences: list[Sequence], width: int) -> FeatureScale:
        """From the first `width` feature columns, first positions left out (their activations are of another order)."""
        stride = max(1, len(sequences) // SAMPLE)
        sample = torch.cat([s.features[1:, :width].float() for s in sequences[::stride]])
        direction = sample.mean(0)
        direction = direction / direction.norm()
        rest = sample - (sample @ direction)[:, None] * direction
        return cls(direction, rest.std(0).clamp_min(1e-4))

    def forward(self, features: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return (features - (features @ self.direction)[..., None] * self.direction) / self.deviation

    def fold(self, weight: Tensor) -> Tensor:
        """fc trained on scaled features [d, D] -> fc for raw features."""
        scaled = weight / self.deviation
        return scaled - (scaled @ self.direction)[:, None] * self.direction

    def unfold(self, weight: Tensor) -> Tensor:
        """The inverse for a folded weight: gives the same outputs on scaled features."""
        return weight * self.deviation
