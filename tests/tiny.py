"""Tiny random models in code: a target and a drafter for it, small enough for any test."""

from __future__ import annotations

from copy import deepcopy

import torch
from transformers import LlamaConfig, PreTrainedModel, Qwen3Config, Qwen3MoeConfig
from transformers.models.auto import AutoModelForCausalLM

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.config import DraftConfig
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.engines.torch.target import prepare

VOCAB, HIDDEN, LAYERS = 61, 32, 4
_SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
    "eos_token_id": 0,
    "bos_token_id": 1,
    "pad_token_id": 0,
    "initializer_range": 0.3,  # wide enough that greedy choices are not near-ties
}
CONFIGS = {
    "llama": LlamaConfig(**_SHAPE),
    "qwen3": Qwen3Config(head_dim=12, **_SHAPE),
    "qwen3-moe": Qwen3MoeConfig(head_dim=12, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, **_SHAPE),
}


def raw_target(kind: str = "llama", seed: int = 0, **changes: object) -> PreTrainedModel:
    """An untouched Hugging Face model with random weights, float32; `changes` go into its config."""
    torch.manual_seed(seed)
    config = deepcopy(CONFIGS[kind])  # the attention choice is kept in it, and models must not share that
    for name, value in changes.items():
        setattr(config, name, value)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def target_model(kind: str = "llama", seed: int = 0, **changes: object) -> PreTrainedModel:
    return prepare(raw_target(kind, seed, **changes))


def draft_config(layout: Layout = Layout.FILL_IN, **changes: object) -> DraftConfig:
    values: dict[str, object] = {
        "hidden_size": HIDDEN,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "vocab_size": VOCAB,
        "block_size": 6,
        "mask_token_id": 2,
        "target_layer_ids": (0, 2),
        "num_target_layers": LAYERS,
        "layout": layout,
    }
    return DraftConfig.model_validate(values | changes)


def backbone(layout: Layout = Layout.FILL_IN, seed: int = 0, **changes: object) -> BlockBackbone:
    module = BlockBackbone(draft_config(layout, **changes))
    generator = torch.Generator().manual_seed(seed)
    module.initialise(generator, torch.ones(module.config.vocab_size, HIDDEN))
    for parameter in module.parameters():  # norms too: a test must notice a norm that is left out
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return module.eval()
