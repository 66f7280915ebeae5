"""The head on disk: `lilicorr/{config.json, model.safetensors}` beside the backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dcoco_bench.drafting.head_store import load_head, read_head_config, save_head
from dcoco_bench.drafting.params import check_trained_so
from dcoco_bench.errors import UserError

from .config import LiLiCorrConfig
from .head import LiLiCorr
from .options import TrainingOptions


def save_lilicorr(folder: Path, head: LiLiCorr, options: TrainingOptions) -> None:
    save_head(folder, head, head.config.to_json() | {"training": asdict(options)})


def load_lilicorr(folder: Path, params: Mapping[str, Any]) -> tuple[LiLiCorr, int]:
    """The head and its K. Raises UserError where the cell names what this checkpoint was not trained for."""
    raw = read_head_config(folder)
    config = LiLiCorrConfig.from_json(raw)
    shape = {"width": config.lilicorr_hidden_size, "scale": config.lilicorr_logit_scale}
    trained = (raw.get("training") or {}) | shape
    check_trained_so("lilicorr", params, trained, (*shape, *asdict(TrainingOptions())))
    most = config.lilicorr_candidate_topk
    k = params["k"] or most
    if k > most:
        raise UserError(f"lilicorr@k={k}: the checkpoint was trained with k={most}; say k={most} or less")
    head = LiLiCorr(config)
    load_head(folder, head)
    return head.eval(), k
