"""A recipe is read strictly, and ours asks for an equal budget from one phase 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.method import MethodSpec
from dcoco_bench.registry import get_method
from dcoco_bench.training.recipe import follow, read_recipe, train_request

GOOD = """
backbone = "smollm2-135m"
[teacher]
prompts = "p.jsonl"
count = 10
[train]
sequences = 4
lr = 0.5
[[run]]
name = "phase1"
method = "dflash"
steps = 3
[[run]]
name = "more"
method = "dcoco@rho=2"
from = "phase1"
minutes = 2
lr = 0.25
block_size = 4
"""


def _read(folder: Path, text: str) -> str:
    (folder / "recipe.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_recipe(folder / "recipe.toml")
    return str(caught.value)


def test_a_run_s_own_settings_win_over_the_shared_ones(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(GOOD)
    recipe = read_recipe(tmp_path / "recipe.toml")
    first, second = (train_request(recipe, run, tmp_path) for run in recipe.run)
    assert (first.settings.steps, first.settings.seconds, first.settings.lr, first.start) == (3, None, 0.5, None)
    assert (second.settings.steps, second.settings.seconds, second.settings.lr) == (None, 120.0, 0.25)
    assert (second.settings.sequences, second.shape.block_size, first.shape.block_size) == (4, 4, 8)
    assert second.start == tmp_path / "phase1"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('from = "phase1"', 'from = "phase0"', "no earlier run"),
        ('name = "more"', 'name = "phase1"', "two runs are named"),
        ("minutes = 2", "", "needs a budget"),
        ("lr = 0.25", "rate = 0.25", "rate"),
        ("count = 10", "count = 0", "count"),
        ("[teacher]", "[teacher", "not TOML"),
    ],
)
def test_a_bad_recipe_is_named_with_its_reason(tmp_path: Path, old: str, new: str, reason: str) -> None:
    said = _read(tmp_path, GOOD.replace(old, new))
    assert "recipe.toml" in said
    assert reason in said


def test_only_takes_a_run_s_name(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(GOOD)
    with pytest.raises(UserError, match="did you mean 'phase1'"):
        follow(read_recipe(tmp_path / "recipe.toml"), tmp_path, print, only="phase")


def test_our_recipe_gives_every_method_the_same_further_budget() -> None:
    recipe = read_recipe(Path("smollm2-135m"))
    further = {run.name: run for run in recipe.run if run.start == "base"}
    assert set(further) == {run.name for run in recipe.run} - {"phase1", "base"}
    assert len({(run.steps, run.sequences, run.anchors) for run in further.values()}) == 1
    assert {"dflash", "dspark", "domino", "dcoco", "dflash2", "lilicorr"} <= set(further)
    for run in recipe.run:
        spec = MethodSpec.parse(run.method)
        spec.resolve_for_training(get_method(spec.name).params)
