"""DFlash2's candidate selector: a bilinear score of neighbouring tokens, gated by the slot's state (methods.md 7).

    edge_i(p -> c) = l_i(c) + <A[p] * W_s h_i, B[c]>

A, B: codebooks [V', rank]; p of slot 1 is the anchor. At rank 256, V' = 151,936 and d = 4096: 78,839,808 parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import embedding

from dcoco_bench.errors import UserError


@dataclass(frozen=True)
class SelectorConfig:
    """`candidate_selector/config.json`."""

    hidden_size: int  # d
    vocab_size: int  # V' of the draft vocabulary
    selector_rank: int = 64  # 256 in the published one

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> SelectorConfig:
        """Raises UserError naming a field that is missing or not a size."""
        sizes = {name: raw.get(name) for name in ("hidden_size", "vocab_size", "selector_rank")}
        if wrong := [name for name, value in sizes.items() if type(value) is not int or value < 1]:
            raise UserError(
                f"candidate_selector/config.json: {', '.join(wrong)} missing or not usable; fetch the checkpoint again"
            )
        return cls(**sizes)  # type: ignore[arg-type]


class CandidateSelector(nn.Module):
    """Published tensor names. Float32: what it adds to logits is small.

    With a pruned vocabulary the codebooks have its rows only. A token outside it (-1) can precede a candidate only as
    the anchor; it then adds nothing, and slot 1 keeps its unary logits.
    """

    def __init__(self, config: SelectorConfig, generator: Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.predecessor_codebook = nn.Parameter(torch.empty(config.vocab_size, config.selector_rank))
        self.successor_codebook = nn.Parameter(torch.empty(config.vocab_size, config.selector_rank))
        self.hidden_projection = nn.Linear(config.hidden_size, config.selector_rank, bias=False)
        self._initialise(generator)

    @torch.no_grad()
    def _initialise(self, generator: Generator | None) -> None:
        """B = 0: training starts at the drafter's argmax, and A and W_s are large enough for B to move at once."""
        bound = self.config.hidden_size**-0.5
        self.hidden_projection.weight.uniform_(-bound, bound, generator=generator)
        self.predecessor_codebook.normal_(generator=generator)
        self.successor_codebook.zero_()

    def edges(self, logits: Tensor, ids: Tensor, hidden: Tensor, predecessors: Tensor) -> Tensor:
        """One predecessor a slot: candidates' logits and ids [..., N, K], hidden [..., N, d], [..., N] -> [..., N, K].

        Training: the data's own predecessor, whether or not it is a candidate of its slot.
        """
        left = self._left(predecessors) * self._gate(hidden)
        return logits + (self._right(ids) @ left[..., None]).squeeze(-1)

    def scores(self, logits: Tensor, ids: Tensor, hidden: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """Anchors [...] as draft ids -> first [..., K] and transitions [..., N-1, K, K] of `drafting.walks`."""
        gate, right = self._gate(hidden), self._right(ids)
        anchored = self._left(anchors) * gate[..., 0, :]
        first = logits[..., 0, :] + (right[..., 0, :, :] @ anchored[..., None]).squeeze(-1)
        left = self._left(ids[..., :-1, :]) * gate[..., 1:, None, :]
        return first, logits[..., 1:, None, :] + left @ right[..., 1:, :, :].transpose(-1, -2)

    def _left(self, ids: Tensor) -> Tensor:
        return embedding(ids.clamp_min(0), self.predecessor_codebook) * (ids >= 0)[..., None]

    def _right(self, ids: Tensor) -> Tensor:
        return embedding(ids, self.successor_codebook)

    def _gate(self, hidden: Tensor) -> Tensor:
        return self.hidden_projection(hidden.float())
