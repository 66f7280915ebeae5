"""A training recipe: one teacher set, then runs that share it and start from one another, as a TOML file.

backbone = "smollm2-135m"
[teacher]                      # what `generate` takes
[train]                        # what every run shares, as the flags of `train`
[[run]]                        # name, method, steps or minutes, from = an earlier run's name, own settings
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dcoco_bench.drafting.layout import Layout
from dcoco_bench.errors import UserError, nearest
from dcoco_bench.log_read import first_reason
from dcoco_bench.machine import default_device, fast_dtype
from dcoco_bench.prompts.loading import DATA_VARIABLE
from dcoco_bench.training.command import GenerateRequest, Say, TrainRequest, run_generate, run_train
from dcoco_bench.training.setup import DraftShape
from dcoco_bench.training.teacher import read_answers, shards
from dcoco_bench.training.trainer import Settings

DONE = "done"  # written beside a run's checkpoint when all of it is there


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TeacherSet(_Strict):
    prompts: str  # a path, or a file of DCOCO_BENCH_DATA
    count: int = Field(ge=1)
    concurrency: int = 64
    max_tokens: int = 192
    max_prompt: int = 320
    taps: tuple[int, ...] | None = None


class Hyper(_Strict):
    """The flags of `train`; None = the default, or what [train] says."""

    layers: int | None = None
    block_size: int | None = None
    layout: Layout | None = None
    vocab: int | None = None
    optimizer: str | None = None
    lr: float | None = None
    matrix_lr: float | None = None
    backbone_lr: float | None = None
    sequences: int | None = None
    anchors: int | None = None
    seed: int | None = None
    soft: float | None = None


class RecipeRun(Hyper):
    name: str
    method: str
    steps: int | None = None
    minutes: float | None = None
    start: str | None = Field(default=None, alias="from")


class Recipe(_Strict):
    backbone: str
    teacher: TeacherSet
    train: Hyper = Hyper()
    run: tuple[RecipeRun, ...]

    @model_validator(mode="after")
    def _runs_follow_one_another(self) -> Recipe:
        earlier: list[str] = []
        for run in self.run:
            if run.name in earlier:
                raise ValueError(f"two runs are named {run.name!r}")
            if run.start is not None and run.start not in earlier:
                raise ValueError(f"run {run.name!r} starts from {run.start!r}, which is no earlier run")
            if (run.steps is None) == (run.minutes is None):
                raise ValueError(f"run {run.name!r} needs a budget: steps or minutes")
            earlier.append(run.name)
        return self


def read_recipe(path: Path) -> Recipe:
    """`path` is a file, or the bare name of a recipe in `recipes/`. Raises UserError with file, key and reason."""
    own = Path(__file__).parent / "recipes" / f"{path.name}.toml"
    if path.parent == Path() and not path.exists() and own.exists():
        path = own
    try:
        return Recipe(**tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"recipe {path}: {error.strerror}; give a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"recipe {path} is not TOML ({error}); mend it") from None
    except ValidationError as error:
        raise UserError(f"recipe {path}: {first_reason(error)}; mend it") from None


def follow(recipe: Recipe, out: Path, say: Say, only: str | None = None) -> None:
    """Teacher data into `out/teacher`, then every run into `out/<name>`. Finished parts are skipped, begun ones go on.

    `only` names the one run to do (its data and the run it starts from must be there). Raises UserError.
    """
    names = [run.name for run in recipe.run]
    if only is not None and only not in names:
        raise UserError(f"--only {only}: no such run in the recipe; {nearest(only, names)}")
    _teacher(recipe, out / "teacher", say)
    for run in recipe.run:
        if only not in (None, run.name):
            continue
        if (out / run.name / DONE).exists():
            say(f"{run.name}: done before")
            continue
        say(f"{run.name}: {run.method}")
        run_train(train_request(recipe, run, out), say)
        (out / run.name / DONE).touch()


def train_request(recipe: Recipe, run: RecipeRun, out: Path) -> TrainRequest:
    """The run as `train` would be asked for it."""
    said = recipe.train.model_dump(exclude_none=True) | run.model_dump(exclude_none=True)
    settings = _filled(Settings(bf16=fast_dtype(default_device()) == "bfloat16"), said)
    if run.minutes is not None:
        settings = dataclasses.replace(settings, seconds=run.minutes * 60)
    return TrainRequest(
        method=run.method,
        teacher=out / "teacher",
        out=out / run.name,
        settings=settings,
        shape=_filled(DraftShape(), said),
        backbone=recipe.backbone,
        start=out / run.start if run.start else None,
        resume=True,
        soft=said.get("soft", 0.0),
    )


def _filled(defaults: Any, said: dict[str, Any]) -> Any:
    known = {field.name for field in dataclasses.fields(defaults)}
    return dataclasses.replace(defaults, **{key: value for key, value in said.items() if key in known})


def _teacher(recipe: Recipe, folder: Path, say: Say) -> None:
    wanted = recipe.teacher
    held = sum(len(read_answers(shard)) for shard in shards(folder)) if folder.is_dir() else 0
    if held >= wanted.count:
        say(f"teacher: {held} answers in {folder}")
        return
    request = GenerateRequest(
        prompts=_prompt_file(wanted.prompts),
        out=folder,
        backbone=recipe.backbone,
        **wanted.model_dump(exclude={"prompts"}),
    )
    run_generate(request, say)


def _prompt_file(name: str) -> Path:
    data = os.environ.get(DATA_VARIABLE)
    inside = Path(data).expanduser() / name if data else None
    return inside if inside and inside.is_file() else Path(name)
