"""The target: an unmodified Hugging Face causal LM, run over a ragged cache, with its hidden states tapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM, Cache, PreTrainedModel

from dcoco_bench.drafting.attention import attend, visible
from dcoco_bench.drafting.kv import RaggedKV, Window
from dcoco_bench.drafting.packing import pack_linears, packing_helps

FINAL = -1  # a tap on the final-norm output (what the LM head reads) instead of a layer's output


def _ragged_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    return attend(query, key, value, attention_mask, scaling), None


AttentionInterface.register("dcoco_bench_ragged", _ragged_attention)


class _ModelCache(Cache):
    """What the model calls a cache: hands each layer's new keys and values to the ragged storage."""

    def __init__(self, storage: RaggedKV) -> None:
        super().__init__(layers=[])
        self.storage = storage
        self.window: Window | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        assert self.window is not None
        return self.storage.write(layer_idx, self.window, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0  # positions are always passed explicitly

    def __len__(self) -> int:
        return len(self.storage.keys)


class Pass(NamedTuple):
    logits: Tensor  # [B, kept, V]
    features: Tensor | None  # [B, S, taps*d], in tap order


def prepare(model: PreTrainedModel) -> PreTrainedModel:
    """Set a model up for `Target`: our attention over ragged rows, packed weights. Its code stays as it is."""
    model.eval().set_attn_implementation("dcoco_bench_ragged")
    if packing_helps(model.dtype, model.device):
        pack_linears(model)
    return model


def load_model(
    source: str, dtype: torch.dtype, device: torch.device, *, trust_remote_code: bool = False
) -> PreTrainedModel:
    """Weights from a local folder or the hub, prepared. Raises OSError or ValueError as transformers does."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, trust_remote_code=trust_remote_code)
    model.to(device)  # type: ignore[arg-type]
    return prepare(model)


class Target:
    """A prepared model with the caches of one engine's streams; several targets may share a model.

    `taps` are decoder-layer numbers (0-based; the raw residual stream after that layer) or FINAL.
    """

    def __init__(self, model: PreTrainedModel, taps: tuple[int, ...] = ()) -> None:
        self.model = model
        self.config = model.config
        self.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.groups = self.config.num_attention_heads // self.config.num_key_value_heads
        self.head_dim: int = getattr(self.config, "head_dim", None) or (
            self.config.hidden_size // self.config.num_attention_heads
        )
        self.taps = taps

    @property
    def embedding(self) -> Tensor:
        """[V, d], shared with every drafter."""
        return _weight(self.model.get_input_embeddings())

    @property
    def head(self) -> Tensor:
        """[V, d]."""
        return _weight(self.model.get_output_embeddings())

    @property
    def shape(self) -> dict[str, int]:
        """What a draft checkpoint must match."""
        return {
            "hidden_size": self.config.hidden_size,
            "vocab_size": self.config.vocab_size,
            "layers": self.config.num_hidden_layers,
        }

    @contextmanager
    def _tapping(self) -> Iterator[dict[int, Tensor]]:
        """Collect the tapped states of one pass; hooks live no longer, since other targets share the model."""
        decoder, found = self.model.get_decoder(), {}

        def keep(tap: int) -> Callable[..., None]:
            def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
                found[tap] = output[0] if isinstance(output, tuple) else output

            return hook

        modules = {tap: decoder.norm if tap == FINAL else decoder.layers[tap] for tap in self.taps}
        hooks = [module.register_forward_hook(keep(tap)) for tap, module in modules.items()]
        try:
            yield found
        finally:
            for hook in hooks:
                hook.remove()

    def allocate(self, rows: int, capacity: int) -> None:
        """Room for `rows` streams of `capacity` positions each; drops what was cached."""
        self.storage = RaggedKV(
            self.config.num_hidden_layers,
            rows,
            self.config.num_key_value_heads,
            capacity,
            self.head_dim,
            self.dtype,
            self.device,
        )
        self._cache = _ModelCache(self.storage)

    def forward(self, lo: int, ids: Tensor, starts: Tensor, *, keep: int = 0) -> Pass:
        """Run ids [B, S] of rows lo..lo+B-1 at positions starts[b].. ; logits of the last `keep` tokens (0 = all)."""
        window = Window.at(lo, starts, ids.shape[1])
        self._cache.window = window
        with self._tapping() as tapped:
            out = self.model(
                input_ids=ids,
                attention_mask=visible(window.positions, window.span, self.groups, self.dtype),
                position_ids=window.positions,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=keep,
            )
        features = torch.cat([tapped[tap] for tap in self.taps], dim=-1) if self.taps else None
        return Pass(out.logits, features)

    def move_row(self, source: int, target: int, length: int) -> None:
        self.storage.move_row(source, target, length)


def _weight(module: nn.Module) -> Tensor:
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight.detach()
