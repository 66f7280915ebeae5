"""DCOCO's corrector: scores of all K^2 transitions between neighbouring slots in one pass (arXiv 2610.12570).

Equations and exact sizes are methods.md 6.1 and 6.6, variant A: 2,229,505 parameters at d=4096, 1,443,073 at d=2560.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import layer_norm, linear, silu

from dcoco_bench.errors import UserError

from .pairs import score_pairs

ZERO = ("none", "z", "token", "state")


@dataclass(frozen=True)
class CorrectorConfig:
    """`corrector/config.json`. The last three are the paper's ablations and the step past it."""

    hidden_size: int  # d
    width: int = 128  # of a candidate, and of the pair state
    mlp_width: int = 256
    pair: bool = True  # False: the pair state is zero
    zero: str = "none"  # z: candidates are zero; token, state: that half of them is
    first: bool = False  # the anchor -> slot 1 transition is scored too

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> CorrectorConfig:
        """Raises UserError naming a field that is missing or of the wrong kind."""
        sizes = {name: raw.get(name) for name in ("hidden_size", "width", "mlp_width")}
        flags = {name: raw.get(name, False) for name in ("pair", "first")}
        wrong = [name for name, value in sizes.items() if type(value) is not int or value < 1]
        wrong += [name for name, value in flags.items() if type(value) is not bool]
        if raw.get("zero", "none") not in ZERO:
            wrong.append("zero")
        if wrong:
            raise UserError(
                f"corrector/config.json: {', '.join(wrong)} missing or not usable; fetch the checkpoint again"
            )
        return cls(**sizes, **flags, zero=raw.get("zero", "none"))  # type: ignore[arg-type]


def normalised(values: Tensor) -> Tensor:
    """LayerNorm without affine parameters: embeddings and hidden states differ in scale by two orders of magnitude."""
    return layer_norm(values, values.shape[-1:])


class Corrector(nn.Module):
    """All arithmetic is float32: what it adds to logits is small.

    S_p(a, b) = l_{p+1}(b) + D(z_{p,a}, z_{p+1,b}, s_p), with

        z = LN(W_f [LN0(W_e E[c]) ; LN0(W_h h)])       a candidate: its token, its slot's state
        s_p = W_pair [h_p ; h_{p+1}]                   the pair state, whatever the candidates
        D = w_o . silu(W_1 [z_a ; z_b ; s] + b_1)      w_o = b_o = 0 at the start: the walk is the drafter's argmax

    W_1 and W_f are split by input, so that a candidate is multiplied once and not once per pair: D equals
    w_o . silu(X_a + Y_b + C_p) exactly.
    """

    def __init__(self, config: CorrectorConfig, generator: Generator | None = None) -> None:
        super().__init__()
        self.config = config
        d, w, m = config.hidden_size, config.width, config.mlp_width
        self.emb_proj = nn.Linear(d, w)
        self.hid_proj = nn.Linear(d, w)
        self.fuse = nn.Linear(2 * w, w)
        self.z_norm = nn.LayerNorm(w)
        self.pair_proj = nn.Linear(2 * d, w)
        self.mlp_in = nn.Linear(3 * w, m)
        self.mlp_out = nn.Linear(m, 1)
        if config.first:
            self.anchor_state = nn.Parameter(torch.zeros(w))  # stands in for LN0(W_h h): the anchor has no slot
        self._initialise(generator)

    @torch.no_grad()
    def _initialise(self, generator: Generator | None) -> None:
        """PyTorch's Linear start from a generator of our own; the output layer zero."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = module.in_features**-0.5
                module.weight.uniform_(-bound, bound, generator=generator)
                module.bias.uniform_(-bound, bound, generator=generator)
        self.mlp_out.weight.zero_()
        self.mlp_out.bias.zero_()

    def token_half(self, embeddings: Tensor) -> Tensor:
        """Token embeddings [..., d] -> their part of `fuse`, bias included, [..., w].

        Depends on the token alone: once per checkpoint over the draft vocabulary it is a table, and serving gathers
        from it instead of multiplying N*K embeddings a round.
        """
        if self.config.zero == "token":
            return self.fuse.bias.expand(*embeddings.shape[:-1], -1)
        part = normalised(self.emb_proj(embeddings.float()))
        return linear(part, self.fuse.weight[:, : self.config.width], self.fuse.bias)

    def scores(
        self, logits: Tensor, token_halves: Tensor, hidden: Tensor, anchor_half: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Candidate logits [..., N, K] -> slot 1's scores [..., K] and the transitions S [..., N-1, K, K].

        Slot 1 keeps the drafter's logits unless `anchor_half` [..., w] is given.
        """
        first = logits[..., 0, :]
        if anchor_half is not None:
            first = first + self.forward_first(anchor_half, token_halves[..., 0, :, :], hidden[..., 0, :])
        return first, logits[..., 1:, None, :] + self(token_halves, hidden)

    def forward(self, token_halves: Tensor, hidden: Tensor) -> Tensor:
        """token_halves [..., N, K, w], hidden [..., N, d] -> corrections D [..., N-1, K, K]."""
        z = self.represent(token_halves, self.state_half(hidden)[..., None, :])
        # Slices come after the products: a strided input is multiplied block by block, several times slower.
        before = self._before(z)[..., :-1, :, :] + self._pair(self.pair_states(hidden))[..., None, :]
        return score_pairs(before, self._after(z)[..., 1:, :, :], self.mlp_out.weight[0], self.mlp_out.bias)

    def forward_first(self, anchor_half: Tensor, token_halves: Tensor, hidden: Tensor) -> Tensor:
        """anchor_half [..., w], slot 1's token_halves [..., K, w] and hidden [..., d] -> corrections [..., K].

        The anchor's own state is learnt, and zero in the pair state; only with `first`.
        """
        anchor = self.represent(anchor_half, self._state_part(self.anchor_state))
        z = self.represent(token_halves, self.state_half(hidden)[..., None, :])
        states = self.pair_states(torch.stack([torch.zeros_like(hidden), hidden], dim=-2))[..., 0, :]
        before = (self._before(anchor) + self._pair(states))[..., None, :]
        return score_pairs(before, self._after(z), self.mlp_out.weight[0], self.mlp_out.bias)[..., 0, :]

    def direct(self, z_before: Tensor, z_after: Tensor, state: Tensor) -> Tensor:
        """The definition, one pair at a time: [..., w] three times -> [...]. What `forward` must equal."""
        return self.mlp_out(silu(self.mlp_in(torch.cat([z_before, z_after, state], dim=-1)))).squeeze(-1)

    def state_half(self, hidden: Tensor) -> Tensor:
        """Slot states [..., d] -> their part of `fuse`, [..., w]."""
        return self._state_part(normalised(self.hid_proj(hidden.float())))

    def represent(self, token_half: Tensor, state_half: Tensor) -> Tensor:
        """The two halves, broadcast -> candidates z [..., w]."""
        z = self.z_norm(token_half + state_half)
        return torch.zeros_like(z) if self.config.zero == "z" else z

    def pair_states(self, hidden: Tensor) -> Tensor:
        """[..., N, d] -> s_p [..., N-1, w]; W_pair too is multiplied once a slot."""
        d = self.config.hidden_size
        if not self.config.pair:
            return hidden.new_zeros(*hidden.shape[:-2], hidden.shape[-2] - 1, self.config.width, dtype=torch.float32)
        states = hidden.float().contiguous()
        left, right = linear(states, self.pair_proj.weight[:, :d]), linear(states, self.pair_proj.weight[:, d:])
        return left[..., :-1, :] + right[..., 1:, :] + self.pair_proj.bias

    def _state_part(self, normed: Tensor) -> Tensor:
        part = linear(normed, self.fuse.weight[:, self.config.width :])
        return torch.zeros_like(part) if self.config.zero == "state" else part

    def _before(self, z: Tensor) -> Tensor:
        return linear(z, self.mlp_in.weight[:, : self.config.width])

    def _after(self, z: Tensor) -> Tensor:
        return linear(z, self.mlp_in.weight[:, self.config.width : 2 * self.config.width])

    def _pair(self, states: Tensor) -> Tensor:
        return linear(states, self.mlp_in.weight[:, 2 * self.config.width :], self.mlp_in.bias)
