"""The head on disk: `domino/{config.json, model.safetensors}` beside the backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dcoco_bench.drafting.head_store import load_head, read_head_config, save_head
from dcoco_bench.drafting.params import check_trained_so

from .head import DominoConfig, DominoHead
from .options import TrainingOptions


def save_domino(folder: Path, head: DominoHead, options: TrainingOptions) -> None:
    save_head(folder, head, head.config.to_json() | {"training": asdict(options)}, torch.bfloat16)


def load_domino(folder: Path, params: Mapping[str, Any]) -> DominoHead:
    """Raises UserError where the cell names what this checkpoint was not trained for."""
    raw = read_head_config(folder)
    config = DominoConfig.from_json(raw)
    shape = {"gru": config.gru_hidden_dim, "rank": config.emb_dim, "pure": config.pure_draft_prefix_len}
    check_trained_so("domino", params, (raw.get("training") or {}) | shape, (*shape, *asdict(TrainingOptions())))
    head = DominoHead(config)
    load_head(folder, head)
    return head.eval()
