"""Verification: which draft tokens the target accepts, and its own next token (methods.md section 2).

Exact at every temperature: the output follows the processed target distribution whatever the drafter proposes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from dcoco_bench.cells import Sampling


class Verdict(NamedTuple):
    accepted: Tensor  # [B] draft tokens accepted, 0..N
    following: Tensor  # [B] the target's own token: the correction, or the extra token


def target_distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """Processed probabilities [..., V]: temperature, then top-k, then top-p."""
    scaled = logits.float() / sampling.temperature
    if 0 < sampling.top_k < scaled.shape[-1]:
        floor = scaled.topk(sampling.top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < floor, float("-inf"))
    probs = scaled.softmax(-1)
    if sampling.top_p < 1.0:
        ordered, order = probs.sort(dim=-1, descending=True)
        # A token stays while the mass before it is below top_p: the most likely one always stays.
        dropped = ordered.cumsum(-1) - ordered >= sampling.top_p
        probs = probs.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), 0.0)
        probs = probs / probs.sum(-1, keepdim=True)
    return probs


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """Inverse-CDF sampling: probs [..., V] (need not sum to 1), uniform [...] in [0, 1) -> ids [...]."""
    cdf = probs.double().cumsum(-1)
    chosen = torch.searchsorted(cdf, (uniform.double() * cdf[..., -1]).unsqueeze(-1), right=True).squeeze(-1)
    # Rounding can land one past the last token with mass; step back onto it.
    last = probs.shape[-1] - 1 - (probs > 0).flip(-1).int().argmax(-1)
    return torch.minimum(chosen, last)


def uniforms(generators: list[Generator], width: int, device: torch.device) -> Tensor:
    """[B, width] numbers in [0, 1); each row has its own stream, so neighbours do not change a request's draws."""
    return torch.stack([torch.rand(width, generator=g, dtype=torch.float64) for g in generators]).to(device)


def _offered(drafts: Tensor, lengths: Tensor | None) -> Tensor:
    """[B, N] True where a slot was offered for verification: the first `lengths` [B] of each row, else all."""
    if lengths is None:
        return torch.ones_like(drafts, dtype=torch.bool)
    return torch.arange(drafts.shape[1], device=drafts.device) < lengths[:, None]


def _prefix_length(matches: Tensor) -> Tensor:
    return matches.long().cumprod(-1).sum(-1)


def verify_greedy(logits: Tensor, drafts: Tensor, lengths: Tensor | None = None) -> Verdict:
    """T=0: accept while the draft equals the target's argmax. logits [B, N+1, V], drafts [B, N], lengths [B]."""
    wanted = logits.argmax(-1)
    accepted = _prefix_length((drafts == wanted[:, :-1]) & _offered(drafts, lengths))
    return Verdict(accepted, wanted.gather(1, accepted[:, None]).squeeze(1))


def verify_point_mass(
    logits: Tensor, drafts: Tensor, sampling: Sampling, rolls: Tensor, lengths: Tensor | None = None
) -> Verdict:
    """T>0, deterministic proposal: draw y ~ q and accept iff y equals the draft. rolls [B, >= N+1] uniform.

    The same law as accepting with probability q(draft) and drawing a refusal from q without the draft.
    """
    probs = target_distribution(logits, sampling)
    wanted = draw(probs, rolls[:, : logits.shape[1]])
    accepted = _prefix_length((drafts == wanted[:, :-1]) & _offered(drafts, lengths))
    return Verdict(accepted, wanted.gather(1, accepted[:, None]).squeeze(1))


def verify_sampled(
    logits: Tensor, drafts: Tensor, proposal: Tensor, sampling: Sampling, rolls: Tensor, lengths: Tensor | None = None
) -> Verdict:
    """T>0, sampled proposal p [B, N, V]: accept with min(1, q/p), a refusal is drawn from max(0, q - p).

    rolls [B, >= N+1] uniform; the last column draws the target's own token.
    """
    target = target_distribution(logits, sampling)
    slots = drafts.shape[1]
    q = target[:, :-1].gather(2, drafts[..., None]).squeeze(-1)
    p = proposal.gather(2, drafts[..., None]).squeeze(-1)
    offered = _offered(drafts, lengths)
    accepted = _prefix_length((rolls[:, :slots] * p < q) & offered)
    if lengths is not None:
        proposal = proposal * offered[..., None]  # what was not offered was not refused: nothing to take off
    row = torch.arange(len(drafts), device=drafts.device)
    last = target[row, accepted]
    residual = (last - torch.nn.functional.pad(proposal, (0, 0, 0, 1))[row, accepted]).clamp_min(0)
    # Numerically equal distributions leave no residual; the target itself is then the right law.
    last = torch.where(residual.sum(-1, keepdim=True) > 0, residual, last)
    return Verdict(accepted, draw(last, rolls[:, -1]))
