"""Acceptance by a given tau instead of by the target's tokens: what a round costs, apart from what it earns.

The output is no answer. Every cell that ran so is marked as simulated. vLLM's `rejection_sample_method: synthetic`
with `synthetic_acceptance_length` accepts by the same rule.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from dcoco_bench.drafting.verify import Verdict, uniforms


def accept_synthetic(logits: Tensor, drafts: Tensor, tau: float, generators: list[Generator]) -> Verdict:
    """Logits [B, S+1, V], drafts [B, S] -> floor(tau - 1) accepted, and one more with the chance of the rest."""
    whole = int(tau - 1)
    more = uniforms(generators, 1, logits.device)[:, 0] < tau - 1 - whole
    accepted = (whole + more.long()).clamp(max=drafts.shape[1])
    rows = torch.arange(len(accepted), device=logits.device)
    return Verdict(accepted, logits[rows, accepted].argmax(-1))
