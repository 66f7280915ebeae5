"""The selector on disk: `candidate_selector/{config.json, model.safetensors}` beside the backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dcoco_bench.drafting.head_store import load_head, read_head_config, save_head
from dcoco_bench.drafting.params import check_trained_so
from dcoco_bench.errors import UserError

from .head import CandidateSelector, SelectorConfig
from .options import K, TrainingOptions


def save_selector(folder: Path, selector: CandidateSelector, k: int, options: TrainingOptions) -> None:
    save_head(
        folder, selector, selector.config.to_json() | {"selector_top_k": k, "training": asdict(options)}, torch.bfloat16
    )


def load_selector(folder: Path, params: Mapping[str, Any]) -> tuple[CandidateSelector, int]:
    """The selector and its K. Raises UserError where the cell names what this checkpoint was not trained for."""
    raw = read_head_config(folder)
    config = SelectorConfig.from_json(raw)
    trained = (raw.get("training") or {}) | {"rank": config.selector_rank}
    check_trained_so("dflash2", params, trained, ("rank", *asdict(TrainingOptions())))
    k = params["k"] or raw.get("selector_top_k", K)
    if type(k) is not int or k < 1:
        raise UserError(f"{folder / 'config.json'}: selector_top_k {k!r} is no number; fetch the checkpoint again")
    selector = CandidateSelector(config)
    load_head(folder, selector)
    return selector.eval(), k
