"""A corrector that has learnt nothing changes nothing: inside vLLM, its drafts are plain DFlash's over its backbone."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from dcoco_bench.registry import Registry
from tests.server.tool import BACKBONE, ON_CPU, run


def zeroed(out: Path) -> Path:
    """The committed DCOCO draft with the output layer of its corrector as it starts: zero."""
    source = Registry().checkpoint_for("dcoco", BACKBONE)
    assert source is not None
    shutil.copytree(source, out)
    file = out / "corrector" / "model.safetensors"
    tensors = load_file(file)
    last = [name for name in tensors if name.startswith("mlp_out")]
    assert any(tensors[name].any() for name in last)
    save_file({n: torch.zeros_like(t) if n in last else t for n, t in tensors.items()}, file)
    return out


def test_a_zero_corrector_drafts_as_plain_dflash(results: Path, tmp_path: Path) -> None:
    draft = zeroed(tmp_path / "zero")
    checkpoints = ("--checkpoint", f"dcoco={draft}", "--checkpoint", f"dflash={draft}")
    found = run(results, "zero", "--method", "dcoco,dflash", *checkpoints, *ON_CPU)
    corrected, plain = ({r.index: (r.output_ids, r.rounds) for r in cell.requests} for cell in found.cells)
    assert len(plain) == 3
    assert corrected == plain
