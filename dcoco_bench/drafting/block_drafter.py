"""The serving half of every block drafter: one parallel pass, then a method's own choice of tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.attention import visible
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.drafter import Drafter, Lap, Proposal
from dcoco_bench.drafting.kv import RaggedKV, Window
from dcoco_bench.drafting.packing import pack_linears, packing_helps
from dcoco_bench.drafting.vocabulary import Vocabulary


class BlockDrafter(Drafter):
    """Proposes by unary argmax (DFlash). Correctors override `choose`.

    `embedding` and `head` are the target's own [V, d] tables (of a pruned vocabulary, `head` may be its rows [V', d]
    alone); `slots` verifies fewer than the block drafts. A backbone on the meta device is never run: only `choose`.
    """

    def __init__(
        self, backbone: BlockBackbone, vocabulary: Vocabulary, embedding: Tensor, head: Tensor, slots: int | None = None
    ) -> None:
        device, dtype = embedding.device, embedding.dtype
        self.config = backbone.config
        runs = backbone.fc.weight.device.type != "meta"
        self.backbone = backbone.to(device=device, dtype=dtype).eval() if runs else backbone
        self.slots = slots or self.config.slots
        self.taps = self.config.target_layer_ids
        self.vocabulary = vocabulary.to(device)
        self.embedding = embedding
        rows = head[self.vocabulary.kept] if len(head) != len(vocabulary) else head
        self.head = nn.Linear(rows.shape[1], rows.shape[0], bias=False, device="meta")
        self.head.weight = nn.Parameter(rows, requires_grad=False)
        if packing_helps(dtype, device):
            pack_linears(self.backbone)
            pack_linears(self.head)
        self.groups = self.config.num_attention_heads // self.config.num_key_value_heads
        self.recorded = 0

    def allocate(self, rows: int, capacity: int) -> None:
        c = self.config
        room = capacity + c.block_size  # a block starts at the last position and reaches past it
        weight = self.backbone.fc.weight
        self.cache = RaggedKV(
            c.num_hidden_layers, rows, c.num_key_value_heads, room, c.head_dim, weight.dtype, weight.device
        )

    def observe(self, lo: int, features: Tensor, starts: Tensor) -> None:
        self.backbone.write_context(self.cache, Window.at(lo, starts, features.shape[1]), features)

    def propose(
        self, lo: int, anchors: Tensor, positions: Tensor, sampling: Sampling, generators: list[Generator], lap: Lap
    ) -> Proposal:
        width = self.config.block_size
        block = torch.full((len(anchors), width), self.config.mask_token_id, device=anchors.device)
        block[:, 0] = anchors
        window = Window.at(lo, positions, width)
        # Inside the block attention is bidirectional: every query sees up to the block's end.
        mask = visible(window.positions[:, -1:].expand(-1, width), window.span, self.groups, self.embedding.dtype)
        hidden = self.backbone(self.embedding[block], self.cache, window, mask)
        offsets = self.config.layout.offsets(width)
        hidden = hidden[:, offsets][:, : self.slots]
        lap("draft")
        proposal = self.choose(hidden, anchors, sampling, generators)
        lap("head")
        return proposal

    def choose(self, hidden: Tensor, anchors: Tensor, sampling: Sampling, generators: list[Generator]) -> Proposal:
        """Slot states [B, N, d] -> draft tokens. Here: each slot's argmax, at every temperature (methods.md 3)."""
        logits = self.head(hidden)
        return Proposal(self.vocabulary.to_target(logits.argmax(-1)), candidates=self.top(logits))

    def top(self, logits: Tensor) -> Tensor | None:
        """The recorded candidates of unary logits [B, N, V'], best first; None when nobody asked."""
        return self.vocabulary.to_target(logits.topk(self.recorded, dim=-1).indices) if self.recorded else None

    def record_candidates(self, k: int) -> None:
        self.recorded = min(k, len(self.vocabulary))

    def move_row(self, source: int, target: int, length: int) -> None:
        self.cache.move_row(source, target, length)

    def effective_config(self) -> dict[str, Any]:
        return {
            "draft_tokens": self.slots,
            "block_size": self.config.block_size,
            "layout": self.config.layout.value,
            "taps": list(self.taps),
            "draft_vocab": len(self.vocabulary),
            "draft_layers": self.config.num_hidden_layers,
            "mask_token_id": self.config.mask_token_id,
        }
