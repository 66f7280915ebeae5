"""The corrector on disk: `corrector/{config.json, model.safetensors}` beside the backbone (methods.md 6.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dcoco_bench.drafting.head_store import load_head, read_head_config, save_head
from dcoco_bench.errors import UserError

from .head import Corrector, CorrectorConfig
from .options import K, TrainingOptions, check_can_serve


def save_corrector(folder: Path, corrector: Corrector, k: int, options: TrainingOptions) -> None:
    config = {"architecture": "DCOCOCorrector", **corrector.config.to_json(), "k": k, "training": asdict(options)}
    save_head(folder, corrector, config)


def load_corrector(folder: Path, params: Mapping[str, Any]) -> tuple[Corrector, int]:
    """The corrector as trained, with the cell's ablations switched on, and its K.

    Raises UserError where the cell names what this checkpoint was not trained for.
    """
    raw = read_head_config(folder)
    trained = CorrectorConfig.from_json(raw)
    check_can_serve(params, {**(raw.get("training") or {}), **trained.to_json()})
    k = params["k"] or raw.get("k", K)
    if type(k) is not int or k < 1:
        raise UserError(f"{folder / 'config.json'}: k {k!r} is not a number of candidates; fetch the checkpoint again")
    corrector = Corrector(trained)
    load_head(folder, corrector)
    corrector.config = replace(
        trained,
        pair=trained.pair and params["pair"] is not False,
        zero=params["zero"] or trained.zero,
        first=trained.first and params["first"] is not False,
    )
    return corrector.eval(), k
