"""DSpark's heads: a low-rank Markov correction of each slot's logits, and a confidence per slot (methods.md 4.1).

B_k = W_2 m_k with m_k the head's reading of the token before slot k, e = row of W_1, and of the slot's state h:
vanilla m = e; gated m = sigmoid(W_g [h; e] + b_g) * e; rnn m = tanh(o), with a state kept through the block.
Tensor names are the published ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.errors import UserError

HEADS = ("vanilla", "gated", "rnn")


@dataclass(frozen=True)
class DSparkConfig:
    """`dspark/config.json`."""

    hidden_size: int  # d
    vocab_size: int  # the draft's, V'
    previous_size: int  # rows of W_1: the target's V, or V' + 1 of a pruned vocabulary and all other tokens
    markov_rank: int  # r
    markov_head_type: str = "vanilla"
    confidence: bool = True  # published drafts may lack the confidence head

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> DSparkConfig:
        """Raises UserError naming a field that is missing or of the wrong kind."""
        sizes = {name: raw.get(name) for name in ("hidden_size", "vocab_size", "previous_size", "markov_rank")}
        kind = raw.get("markov_head_type", "vanilla")
        wrong = [name for name, value in sizes.items() if type(value) is not int or value < 1]
        wrong += [] if kind in HEADS else ["markov_head_type"]
        confidence = raw.get("confidence", True)
        wrong += [] if type(confidence) is bool else ["confidence"]
        if wrong:
            raise UserError(f"dspark/config.json: {', '.join(wrong)} missing or not usable; fetch the checkpoint again")
        return cls(**sizes, markov_head_type=kind, confidence=confidence)  # type: ignore[arg-type]


class MarkovHead(nn.Module):
    """`state` is None but for the rnn head: [..., r], zeros before slot 1."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        d, r = config.hidden_size, config.markov_rank
        self.kind = config.markov_head_type
        self.markov_w1 = nn.Embedding(config.previous_size, r)
        self.markov_w2 = nn.Linear(r, config.vocab_size, bias=False)
        if self.kind == "gated":
            self.gate_proj = nn.Linear(d + r, r)
        elif self.kind == "rnn":
            self.joint_proj = nn.Linear(2 * r + d, 3 * r)

    def read(self, previous: Tensor, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """e [..., r] of the token before the slot, h [..., d] of the slot -> m [..., r], the next state."""
        if self.kind == "vanilla":
            return previous, None
        if self.kind == "gated":
            return torch.sigmoid(self.gate_proj(torch.cat([hidden, previous], dim=-1))) * previous, None
        before = torch.zeros_like(previous) if state is None else state
        gate, candidate, output = self.joint_proj(torch.cat([before, previous, hidden], dim=-1)).chunk(3, dim=-1)
        gate = torch.sigmoid(gate)
        return torch.tanh(output), gate * before + (1 - gate) * torch.tanh(candidate)

    def unrolled(self, previous: Tensor, hidden: Tensor) -> Tensor:
        """Teacher forcing over whole blocks: e [M, N, r], h [M, N, d] -> m [M, N, r]."""
        if self.kind != "rnn":
            return self.read(previous, hidden, None)[0]
        state, found = None, []
        for slot in range(hidden.shape[1]):
            reading, state = self.read(previous[:, slot], hidden[:, slot], state)
            found.append(reading)
        return torch.stack(found, dim=1)


class ConfidenceHead(nn.Module):
    """kappa = w . [h; e] + b: the log-odds that the target accepts this slot, all before it accepted."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.proj = nn.Linear(config.hidden_size + config.markov_rank, 1)

    def forward(self, hidden: Tensor, previous: Tensor) -> Tensor:
        """[..., d], [..., r] -> [...]."""
        log_odds: Tensor = self.proj(torch.cat([hidden, previous], dim=-1))
        return log_odds.squeeze(-1)


class DSparkHead(nn.Module):
    """`init` spreads W_1 at the start. A correction is a product of two tables: from the published 0.02 each, a few
    hundred steps leave it near zero."""

    def __init__(self, config: DSparkConfig, generator: Generator | None = None, init: float = 0.02) -> None:
        super().__init__()
        self.config = config
        self.markov_head = MarkovHead(config)
        self.confidence_head = ConfidenceHead(config) if config.confidence else None
        if generator is not None:
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    nn.init.zeros_(parameter)
                else:
                    std = init if name == "markov_head.markov_w1.weight" else 0.02
                    nn.init.normal_(parameter, std=std, generator=generator)

    def embed(self, tokens: Tensor, vocabulary: Vocabulary) -> Tensor:
        """e [..., r] of previous tokens, target ids [...]. Outside a pruned vocabulary all share the last row."""
        last = self.config.previous_size - 1
        if self.config.previous_size != vocabulary.target_size:
            inside = vocabulary.to_draft(tokens)
            tokens = torch.where(inside < 0, last, inside)
        embedded: Tensor = self.markov_head.markov_w1(tokens)
        return embedded
