"""vLLM's DFlash backbone with a method's own choice of draft tokens, through the public hook `get_top_tokens`.

Both runners of 0.27 and 0.32 hand the choice to the model when `use_local_argmax_reduction` is on, and treat what it
returns as a point mass: verification is exact at every temperature. Without that flag they would draft as plain
DFlash and say nothing, so the model refuses to be made.
"""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.models.qwen3_dflash import DFlashQwen3ForCausalLM

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.config import OURS
from dcoco_bench.drafting.drafter import Proposal
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.engines.base import CANDIDATES
from dcoco_bench.engines.vllm.candidates import VARIABLE
from dcoco_bench.engines.vllm.plugin.context import mend_context_keys


class SelectingDraft(DFlashQwen3ForCausalLM):  # type: ignore[misc]  # vLLM is not there when types are checked
    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        speculative = vllm_config.speculative_config
        if not speculative.use_local_argmax_reduction:
            raise ValueError("dcoco-bench: use_local_argmax_reduction is off, the draft would run as plain DFlash")
        if getattr(speculative, "draft_sample_method", "greedy") != "greedy":
            raise ValueError("dcoco-bench: draft_sample_method must be greedy, or the method's choice is passed by")
        if getattr(speculative, "enable_adaptive_verification", False):
            raise ValueError("dcoco-bench: enable_adaptive_verification cuts drafts by a confidence this draft lacks")
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        mend_context_keys(self.model)
        self.slots = int(speculative.num_speculative_tokens)
        self._selection: BlockDrafter | None = None
        self._inputs = self._positions = self._outputs = torch.empty(0)
        self._record = os.environ.get(VARIABLE)  # needs eager execution: a captured graph writes no file

    def forward(self, input_ids: Tensor, positions: Tensor, inputs_embeds: Tensor | None = None) -> Tensor:
        self._inputs, self._positions = input_ids, positions
        self._outputs = super().forward(input_ids, positions, inputs_embeds)
        return self._outputs

    def get_top_tokens(self, hidden_states: Tensor) -> Tensor:
        """Hidden states [R*S, d] at block offsets 1..S of R requests -> draft tokens [R*S], target ids.

        vLLM feeds 1+S inputs a request, the anchor first; an anchor-first draft reads offsets 0..S-1 of the same pass.
        """
        selection = self.selection()
        requests = len(hidden_states) // self.slots
        width = 1 + self.slots
        anchors = self._inputs[: requests * width : width]
        states = hidden_states.view(requests, self.slots, -1)
        if selection.config.layout is Layout.ANCHOR_FIRST:
            states = self._outputs[: requests * width].view(requests, width, -1)[:, : self.slots]
        proposal = selection.choose(states, anchors, Sampling(), [])
        if self._record:
            self._write(self._record, self._positions[: requests * width : width], anchors, proposal)
        return proposal.tokens.flatten()

    @staticmethod
    def _write(path: str, positions: Tensor, anchors: Tensor, proposal: Proposal) -> None:
        """One line for the pass, written whole; `engines.vllm.candidates` reads it."""
        parts = {"positions": positions, "anchors": anchors, "tokens": proposal.tokens}
        line = {name: part.tolist() for name, part in parts.items()}
        line["candidates"] = proposal.candidates.tolist() if proposal.candidates is not None else []
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def selection(self) -> BlockDrafter:
        """Made at the first call: only then are the target's embedding and head shared with this module."""
        if self._selection is None:
            from dcoco_bench.drafting.block_method import BlockMethod
            from dcoco_bench.method import MethodSpec
            from dcoco_bench.registry import get_method

            spec = MethodSpec.parse(getattr(self.config, OURS)["spec"])
            method = get_method(spec.name)
            assert isinstance(method, BlockMethod)
            embedding = self.model.embed_tokens.weight[: self.config.vocab_size]
            rows = self.lm_head.weight[: self.config.draft_vocab_size]
            tables = SimpleNamespace(embedding=embedding.detach(), head=rows.detach())
            self._selection = method.selection(self.draft_model_config.model, tables, spec.resolve(method.params))
            if self._record:
                self._selection.record_candidates(CANDIDATES)
        return self._selection
