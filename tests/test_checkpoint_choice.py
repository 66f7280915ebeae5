"""Which weights a cell gets: an ablation's own before its method's, a flag before the matrix file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcoco_bench.cli.matrix import matrix_checkpoints
from dcoco_bench.cli.run import parse_checkpoints
from dcoco_bench.errors import UserError
from dcoco_bench.provenance import weights_hash
from dcoco_bench.registry import Registry


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    return path


def test_a_spec_s_own_checkpoint_comes_before_its_method_s(tmp_path: Path) -> None:
    registry = Registry()
    ablated, joint = folder(tmp_path / "ablated"), folder(tmp_path / "joint")
    given = {"dcoco@pair=off": ablated, "dcoco": joint}
    assert registry.checkpoint_for("dcoco@pair=off", "any", given) == ablated
    assert registry.checkpoint_for("dcoco@select=global-sum", "any", given) == joint
    assert registry.checkpoint_for("dcoco", "any", given) == joint
    with pytest.raises(UserError, match="has no checkpoint"):
        registry.checkpoint_for("domino", "any", given)
    with pytest.raises(UserError, match=r"--checkpoint dcoco=.*no config.json"):
        registry.checkpoint_for("dcoco", "any", {"dcoco": tmp_path})


def test_flags_and_matrix_files_name_specs(tmp_path: Path) -> None:
    assert parse_checkpoints(["dcoco@pair=off,k=8=runs/a"]) == {"dcoco@pair=off,k=8": Path("runs/a")}
    with pytest.raises(UserError, match="not METHOD=FOLDER"):
        parse_checkpoints(["dcoco"])
    file = tmp_path / "matrix.toml"
    file.write_text('suites = ["gsm8k"]\n[checkpoints]\n"dcoco@pair=off" = "runs/a"\n')
    assert matrix_checkpoints(file) == {"dcoco@pair=off": tmp_path / "runs" / "a"}
    file.write_text("checkpoints = 3\n")
    with pytest.raises(UserError, match="checkpoints must be a table"):
        matrix_checkpoints(file)


def test_the_hash_of_weights_covers_the_head(tmp_path: Path) -> None:
    made = folder(tmp_path / "draft")
    (made / "model.safetensors").write_bytes(b"backbone")
    before = weights_hash.__wrapped__(made)  # a run hashes a folder once
    (made / "corrector").mkdir()
    (made / "corrector" / "model.safetensors").write_bytes(b"head")
    with_head = weights_hash.__wrapped__(made)
    (made / "corrector" / "config.json").write_text('{"k": 8}')
    assert len({before, with_head, weights_hash.__wrapped__(made)}) == 3
