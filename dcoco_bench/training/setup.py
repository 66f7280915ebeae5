"""From a backbone's name and a teacher folder to an objective ready to train."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from dcoco_bench.backbone import Backbone
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.config import DraftConfig
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.errors import UserError
from dcoco_bench.method import Method
from dcoco_bench.training.batches import Sequence, load_sequences
from dcoco_bench.training.objective import Objective, Tables
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.teacher import TeacherMeta, read_meta

HELD_OUT_SHARE = 25  # every 25th answer is never trained on


@dataclass(frozen=True)
class DraftShape:
    """What a user may choose about a new drafter; the rest copies the target."""

    layers: int = 2
    block_size: int = 8
    layout: Layout = Layout.FILL_IN
    vocab: int = 8192


def draft_config(target: Any, taps: tuple[int, ...], mask_token_id: int, shape: DraftShape, method: str) -> DraftConfig:
    """The target's dimensions (a Hugging Face config) with a drafter's depth and block."""
    heads = target.num_attention_heads
    return DraftConfig(
        hidden_size=target.hidden_size,
        intermediate_size=target.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=heads,
        num_key_value_heads=target.num_key_value_heads,
        head_dim=getattr(target, "head_dim", None) or target.hidden_size // heads,
        rms_norm_eps=target.rms_norm_eps,
        rope_theta=target.rope_parameters["rope_theta"],
        max_position_embeddings=target.max_position_embeddings,
        vocab_size=target.vocab_size,
        draft_vocab_size=shape.vocab if shape.vocab < target.vocab_size else None,
        block_size=shape.block_size,
        mask_token_id=mask_token_id,
        target_layer_ids=taps,
        num_target_layers=target.num_hidden_layers,
        layout=shape.layout,
        method=method,
    )


def read_tables(model_folder: Path) -> Tables:
    """The target's embedding and LM head in float32, without loading the model."""
    names = {"embedding": "model.embed_tokens.weight", "head": "lm_head.weight"}
    index = model_folder / "model.safetensors.index.json"
    found: dict[str, Tensor] = {}
    where = json.loads(index.read_text())["weight_map"] if index.exists() else {}
    for role, name in names.items():
        with safe_open(model_folder / where.get(name, "model.safetensors"), framework="pt") as file:
            if name in file.keys():  # noqa: SIM118  (a safetensors handle is not a mapping)
                found[role] = file.get_tensor(name).float()
    if "embedding" not in found:
        raise UserError(f"{model_folder} has no tensor {names['embedding']}; give a Llama- or Qwen-style target")
    return Tables(found["embedding"], found.get("head", found["embedding"]))  # tied when there is no head


@dataclass
class Prepared:
    objective: Objective
    train: list[Sequence]
    held_out: list[Sequence]
    tables: Tables
    coverage: float  # share of held-out answer tokens inside the draft vocabulary


def prepare(
    method: Method,
    params: Mapping[str, Any],
    backbone: Backbone,
    model_folder: Path,
    teacher: Path,
    shape: DraftShape,
    *,
    start: tuple[BlockBackbone, Vocabulary] | None,
    stop_ids: frozenset[int],
    seed: int,
) -> Prepared:
    """Data, vocabulary, network. `start` continues from a checkpoint instead of random weights."""
    from transformers import AutoConfig

    meta = read_meta(teacher)
    _check_teacher(meta, backbone, teacher)
    sequences = load_sequences(teacher)
    if len(sequences) < 2 * HELD_OUT_SHARE:
        raise UserError(f"{teacher} holds {len(sequences)} usable answers; generate at least {2 * HELD_OUT_SHARE}")
    held_out, train = sequences[::HELD_OUT_SHARE], [s for i, s in enumerate(sequences) if i % HELD_OUT_SHARE]
    tables = read_tables(model_folder)
    if start:
        network, vocabulary = start
        taps = list(network.config.target_layer_ids)
        if taps != meta.taps[:-1]:
            raise UserError(f"--from: the draft taps layers {taps}, {teacher} holds {meta.taps[:-1]}; generate its own")
    else:
        target = AutoConfig.from_pretrained(model_folder)
        if backbone.mask_token_id is None:
            raise UserError(f"backbone {backbone.name!r} names no mask_token_id; add one to its TOML file")
        config = draft_config(target, tuple(meta.taps[:-1]), backbone.mask_token_id, shape, method.name)
        network = BlockBackbone(config)
        network.initialise(torch.Generator().manual_seed(seed), tables.head)
        answers = [s.answer.output_ids for s in train]
        vocabulary = Vocabulary.most_frequent(answers, shape.vocab, config.vocab_size, stop_ids)
    scale = FeatureScale.estimate(train, len(network.config.target_layer_ids) * network.config.hidden_size)
    if start:
        # A foreign draft may use the mean's direction, so only the sizes are evened out; exact for any checkpoint.
        scale = FeatureScale(torch.zeros_like(scale.direction), scale.deviation)
        network.fc.weight.data = scale.unfold(network.fc.weight.data)
    tokens = [t for s in held_out for t in s.answer.output_ids]
    inside = float((vocabulary.to_draft(torch.tensor(tokens)) >= 0).float().mean())
    objective = method.objective(network, tables, vocabulary, scale, params)
    return Prepared(objective, train, held_out, tables, inside)


def _check_teacher(meta: TeacherMeta, backbone: Backbone, folder: Path) -> None:
    if meta.backbone != backbone.label:
        raise UserError(f"{folder} holds answers of {meta.backbone!r}, not of {backbone.label!r}; generate its own")
