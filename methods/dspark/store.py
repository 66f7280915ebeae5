"""The heads on disk: `dspark/{config.json, model.safetensors}` beside the backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dcoco_bench.drafting.head_store import load_head, read_head_config, save_head
from dcoco_bench.drafting.params import check_trained_so
from dcoco_bench.errors import UserError

from .heads import DSparkConfig, DSparkHead
from .options import TrainingOptions


def save_dspark(
    folder: Path, head: DSparkHead, options: TrainingOptions, temperatures: list[float] | None = None
) -> None:
    extra = {"training": asdict(options), "confidence_temperatures": temperatures}
    save_head(folder, head, head.config.to_json() | extra, torch.bfloat16)


def load_dspark(folder: Path, params: Mapping[str, Any], slots: int) -> tuple[DSparkHead, list[float] | None]:
    """The heads and the calibration of each of `slots` confidences, if there is one.

    Raises UserError where the cell names what this checkpoint was not trained for.
    """
    raw = read_head_config(folder)
    config = DSparkConfig.from_json(raw)
    shape, training = {"head": config.markov_head_type, "rank": config.markov_rank}, raw.get("training") or {}
    check_trained_so("dspark", params, training | shape, (*shape, *asdict(TrainingOptions())))
    if params["threshold"] > 0 and (not config.confidence or training.get("conf") == 0):
        raise UserError(
            f"dspark@threshold={params['threshold']:g}: {folder} has no trained confidence head; leave it out"
        )
    temperatures = raw.get("confidence_temperatures")
    if temperatures is not None and (
        not isinstance(temperatures, list)
        or len(temperatures) != slots
        or not all(isinstance(t, (int, float)) and t > 0 for t in temperatures)
    ):
        raise UserError(
            f"{folder / 'config.json'}: confidence_temperatures must be {slots} numbers above 0; calibrate again"
        )
    head = DSparkHead(config)
    load_head(folder, head)
    return head.eval(), temperatures
