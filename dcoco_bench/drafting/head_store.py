"""A method's head beside its backbone: `<checkpoint>/<name>/{config.json, model.safetensors}`.

In a subfolder, because vLLM's `dflash` loader refuses unknown tensors but does not look into folders (methods.md 6.8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dcoco_bench.errors import UserError


def save_head(folder: Path, head: nn.Module, config: dict[str, Any], dtype: torch.dtype = torch.float32) -> None:
    """float32 where a head is small, as what it adds is small too; bfloat16 for heads with vocabulary tables."""
    write(folder, {name: t.detach().to(dtype) for name, t in head.state_dict().items()}, config)


def write(folder: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: t.contiguous() for n, t in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def read_head_config(folder: Path) -> dict[str, Any]:
    """Raises UserError where the folder or its config.json is missing or broken."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise UserError(
            f"draft checkpoint {folder.parent} has no {folder.name}/config.json; it holds no such head"
        ) from None
    except ValueError as error:
        raise UserError(f"{folder / 'config.json'} is not JSON ({error}); fetch the checkpoint again") from None
    if not isinstance(config, dict):
        raise UserError(f"{folder / 'config.json'} is not a JSON object; fetch the checkpoint again")
    return config


def load_head(folder: Path, head: nn.Module) -> None:
    """Fill `head` (float32) from the folder. Raises UserError listing every name or shape that does not fit."""
    try:
        tensors = load_file(folder / "model.safetensors")
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{folder / 'model.safetensors'} is not readable ({error}); fetch the checkpoint again"
        ) from None
    wanted = head.state_dict()
    problems = [f"{name} is missing" for name in sorted(set(wanted) - set(tensors))]
    problems += [f"{name} is unknown" for name in sorted(set(tensors) - set(wanted))]
    problems += [
        f"{name} is {list(tensors[name].shape)}, config.json makes it {list(wanted[name].shape)}"
        for name in sorted(set(wanted) & set(tensors))
        if tensors[name].shape != wanted[name].shape
    ]
    if problems:
        raise UserError(f"head {folder}: {'; '.join(problems)}; the weights are not of this config")
    head.load_state_dict(tensors)


def check_belongs(folder: Path, *sizes: tuple[str, int, int]) -> None:
    """Each (name, the head's, its backbone's) must agree. Raises UserError naming the first that does not."""
    for field, mine, theirs in sizes:
        if mine != theirs:
            raise UserError(f"{folder}: {field} {mine} (backbone: {theirs}); use the head trained with it")
