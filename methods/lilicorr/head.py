"""LiLiCorr's head: candidates of the whole lattice see each other, neighbours match by cosine (arXiv 2608.20530).

Equations and tensor names are methods.md 8.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import normalize, silu

from .config import LiLiCorrConfig
from .layers import MLP, Attention, Layer

FEATURES = 5


class LiLiCorr(nn.Module):
    """All arithmetic is float32. Scores lie in [-scale, scale]; the drafter's log-probabilities enter as features only.

    x_{s,k} = W_tok E[c] + W_pass h_s + MLP(LN([logp, p, logp - max, k/(K-1), k = 0])) + slot_s + rank_k
    f = silu(W [y; a; y * a]),  y = RMSNorm(transformer(x)),  a = RMSNorm(W_ctx context)
    S(i -> j) = scale <out(f_{s,i}), in(f_{s+1,j})>,  S(anchor -> j) = scale <anchor_out(a), in(f_{1,j})>
    """

    def __init__(self, config: LiLiCorrConfig, generator: Generator | None = None) -> None:
        super().__init__()
        self.config = c = config
        d, w, heads, eps = c.hidden_size, c.lilicorr_hidden_size, c.lilicorr_num_heads, c.rms_norm_eps
        inner = int(w * c.lilicorr_mlp_ratio)
        self.token_proj = nn.Identity() if d == w else nn.Linear(d, w)
        self.pass_hidden_proj = nn.Linear(d, w)
        self.feature_norm = nn.LayerNorm(FEATURES)
        self.feature_mlp = MLP(FEATURES, w, w)
        self.slot_embedding = nn.Parameter(torch.zeros(1, 1, c.slots, 1, w))
        self.rank_embedding = nn.Parameter(torch.zeros(1, 1, 1, c.lilicorr_candidate_topk, w))
        self.relative_slot_bias = nn.Parameter(torch.zeros(heads, 2 * c.block_size - 1))
        self.same_slot_bias = nn.Parameter(torch.zeros(heads))
        self.context_proj = nn.Linear(d, w)
        self.layers = nn.ModuleList(Layer(w, heads, inner, eps) for _ in range(c.lilicorr_num_layers))
        self.output_norm = nn.RMSNorm(w, eps=eps)
        self.anchor_norm = nn.RMSNorm(w, eps=eps)
        self.factor_input_proj = nn.Linear(3 * w, w)
        self.out_head = nn.Linear(w, c.lilicorr_factor_dim)
        self.in_head = nn.Linear(w, c.lilicorr_factor_dim)
        self.anchor_out_head = nn.Linear(w, c.lilicorr_factor_dim)
        self._initialise(generator)

    @torch.no_grad()
    def _initialise(self, generator: Generator | None) -> None:
        """Uniform in +-1/sqrt(inputs), biases zero. At the published width of 1024 that is its N(0, 0.02)."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = module.in_features**-0.5
                module.weight.uniform_(-bound, bound, generator=generator)
                module.bias.zero_()
            elif isinstance(module, Attention):
                bound = module.in_proj_weight.shape[1] ** -0.5
                module.in_proj_weight.uniform_(-bound, bound, generator=generator)

    def project_tokens(self, embeddings: Tensor) -> Tensor:
        """[..., d] -> [..., w]. Depends on the token alone: serving gathers from a table over the draft vocabulary."""
        return self.token_proj(embeddings.float())

    def scores(self, tokens: Tensor, log_probs: Tensor, hidden: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Of M blocks: first [M, K] and transitions [M, N-1, K, K] of `drafting.walks`.

        tokens [M, N, K, w] as projected, log_probs [M, N, K] best first, hidden [M, N, d], context [M, d]. N and K may
        be less than in training.
        """
        slots, k = log_probs.shape[1:]
        x = tokens + self.pass_hidden_proj(hidden.float())[:, :, None]
        x = x + self.feature_mlp(self.feature_norm(features(log_probs.float())))
        x = (x + self.slot_embedding[0, :, :slots] + self.rank_embedding[0, :, :, :k]).flatten(1, 2)
        bias = self.attention_bias(slots, k)
        for layer in self.layers:
            x = layer(x, bias)
        y = self.output_norm(x).unflatten(1, (slots, k))
        anchor = self.anchor_norm(self.context_proj(context.float()))
        beside = anchor[:, None, None].expand_as(y)
        factor = silu(self.factor_input_proj(torch.cat([y, beside, y * beside], dim=-1)))
        out, into = self._unit(self.out_head(factor[:, :-1])), self._unit(self.in_head(factor))
        start = self._unit(self.anchor_out_head(anchor))
        scale = self.config.lilicorr_logit_scale
        first = (into[:, 0] @ start[..., None]).squeeze(-1)
        return scale * first, scale * (out @ into[:, 1:].transpose(-1, -2))

    def attention_bias(self, slots: int, k: int) -> Tensor:
        """[heads, N*K, N*K]: one learnt scalar a head and slot distance, one more inside a slot."""
        slot = torch.arange(slots, device=self.same_slot_bias.device).repeat_interleave(k)
        distance = slot[:, None] - slot
        same = (distance == 0) * self.same_slot_bias[:, None, None]
        return self.relative_slot_bias[:, distance + self.config.block_size - 1] + same

    def _unit(self, vectors: Tensor) -> Tensor:
        return normalize(vectors, dim=-1, eps=self.config.lilicorr_vector_eps)


def features(log_probs: Tensor) -> Tensor:
    """[..., K] best first -> [..., K, 5]: logp, p, logp - max, rank/(K-1), is best."""
    rank = torch.arange(log_probs.shape[-1], device=log_probs.device, dtype=log_probs.dtype)
    share = (rank / max(len(rank) - 1, 1)).expand_as(log_probs)
    best = (rank == 0).to(log_probs.dtype).expand_as(log_probs)
    return torch.stack([log_probs, log_probs.exp(), log_probs - log_probs[..., :1], share, best], dim=-1)
