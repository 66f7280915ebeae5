"""Muon for hidden matrices, AdamW for the rest.

Momentum orthogonalised by a Newton-Schulz iteration (Jordan et al. 2024), in float32: torch's own Muon iterates in
bfloat16, which a CPU without wide bf16 units runs about 10x slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrix: Tensor, iterations: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrix, roughly: singular values end in about 0.7..1.2. [m, n] -> [m, n]."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """SGD with Nesterov momentum whose update of a matrix is orthogonalised; the step's RMS matches AdamW's (0.2)."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state["momentum"] = torch.zeros_like(param)
                state["momentum"].lerp_(param.grad, 1 - group["momentum"])
                update = orthogonalise(param.grad.lerp(state["momentum"], group["momentum"]))
                scale = 0.2 * max(param.shape) ** 0.5
                param.mul_(1 - group["lr"] * group["weight_decay"])
                param.add_(update, alpha=-group["lr"] * scale)


def split_parameters(module: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """(hidden matrices for Muon, the rest for AdamW): norms, biases, and vocabulary tables are the rest."""
    matrices: list[Tensor] = []
    rest: list[Tensor] = []
    for name, param in module.named_parameters():
        if not param.requires_grad:
            continue
        table = "codebook" in name or "markov_w" in name or name.startswith(("lm_head", "embed"))
        (matrices if param.ndim == 2 and not table else rest).append(param)
    return matrices, rest
