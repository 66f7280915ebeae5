"""`dcoco-bench generate`, `train` and `recipe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcoco_bench.errors import UserError


def register(app: typer.Typer) -> None:
    app.command("generate")(generate)
    app.command("train")(train)
    app.command("recipe")(recipe)


def generate(
    prompts: Annotated[Path, typer.Option(help='Rows {"prompt", "domain"}, .jsonl or .jsonl.gz.')],
    out: Annotated[Path, typer.Option(help="Teacher data folder; an existing one is continued.")],
    backbone: Annotated[str, typer.Option(help="The target that answers.")] = "smollm2-135m",
    count: Annotated[int, typer.Option(help="Answers to have in the end.")] = 1000,
    conc: Annotated[int, typer.Option("--conc", "--max-concurrency", help="Streams.")] = 64,
    max_tokens: Annotated[int, typer.Option(help="Per answer.")] = 192,
    max_prompt: Annotated[int, typer.Option(help="Longer prompts (tokens) are left out.")] = 320,
    taps: Annotated[str | None, typer.Option(help="Target layers to record, e.g. 1,8,15,22,28.")] = None,
    part: Annotated[str, typer.Option(help="i/n: this worker of n that fill --out together, --count each.")] = "1/1",
) -> None:
    """The target answers training prompts greedily; its features are kept for `train`."""
    from dcoco_bench.training.command import GenerateRequest, run_generate

    layers = None
    if taps is not None:
        try:
            layers = tuple(int(t) for t in taps.split(","))
        except ValueError:
            raise UserError(f"--taps {taps}: not whole numbers; write e.g. --taps 1,8,15,22,28") from None
    request = GenerateRequest(prompts, out, backbone, count, conc, max_tokens, max_prompt, layers, _worker_of(part))
    run_generate(request, _say)


def train(
    method: Annotated[str, typer.Option(help="The method to train, e.g. dflash or dcoco@rho=2.")],
    teacher: Annotated[Path, typer.Option(help="Folder written by `generate`.")],
    out: Annotated[Path, typer.Option(help="Checkpoint, curve and resumable state.")],
    backbone: Annotated[str, typer.Option(help="The target.")] = "smollm2-135m",
    minutes: Annotated[float | None, typer.Option(help="Wall-clock budget.")] = None,
    steps: Annotated[int | None, typer.Option(help="Step budget.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    start: Annotated[Path | None, typer.Option("--from", help="Start from this draft checkpoint.")] = None,
    layers: Annotated[int, typer.Option(help="Draft layers.")] = 2,
    block_size: Annotated[int, typer.Option(help="Inputs of a block, Q.")] = 8,
    layout: Annotated[str, typer.Option(help="fill-in or anchor-first.")] = "fill-in",
    vocab: Annotated[int, typer.Option(help="Draft vocabulary: the target's most used tokens.")] = 8192,
    optimizer: Annotated[str, typer.Option(help="muon or adamw.")] = "muon",
    lr: Annotated[float, typer.Option(help="AdamW's peak.")] = 1e-3,
    matrix_lr: Annotated[float, typer.Option(help="Muon's peak.")] = 4e-3,
    backbone_lr: Annotated[float, typer.Option(help="The backbone's share of both peaks.")] = 1.0,
    sequences: Annotated[int, typer.Option(help="Answers a step.")] = 16,
    anchors: Annotated[int, typer.Option(help="Blocks an answer.")] = 48,
    soft: Annotated[float, typer.Option(help="0..1: how much of the loss follows the target's distribution.")] = 0.0,
    seed: Annotated[int, typer.Option()] = 42,
) -> None:
    """Train a method's drafter on teacher data, within a budget of steps or minutes."""
    from dcoco_bench.drafting.layout import Layout
    from dcoco_bench.machine import default_device, fast_dtype
    from dcoco_bench.training.command import TrainRequest, run_train
    from dcoco_bench.training.setup import DraftShape
    from dcoco_bench.training.trainer import Settings

    if layout not in list(Layout):
        raise UserError(f"--layout {layout}: unknown; say fill-in or anchor-first")
    if optimizer not in ("muon", "adamw"):
        raise UserError(f"--optimizer {optimizer}: unknown; say muon or adamw")
    for flag, value in (("--layers", layers), ("--vocab", vocab), ("--sequences", sequences), ("--anchors", anchors)):
        if value < 1:
            raise UserError(f"{flag} {value}: must be at least 1")
    if not backbone_lr > 0:
        raise UserError(f"--backbone-lr {backbone_lr:g}: must be above 0; dcoco@frozen=on trains a corrector alone")
    if not 0 <= soft <= 1:
        raise UserError(f"--soft {soft:g}: a share, between 0 and 1")
    settings = Settings(
        steps=steps,
        seconds=None if minutes is None else minutes * 60,
        sequences=sequences,
        anchors=anchors,
        lr=lr,
        matrix_lr=matrix_lr,
        optimizer=optimizer,
        backbone_lr=backbone_lr,
        seed=seed,
        bf16=fast_dtype(default_device()) == "bfloat16",
    )
    shape = DraftShape(layers, block_size, Layout(layout), vocab)
    run_train(TrainRequest(method, teacher, out, settings, shape, backbone, start, resume, soft), _say)


def recipe(
    file: Annotated[Path, typer.Argument(help="A recipe's TOML, or the name of one of ours: smollm2-135m.")],
    out: Annotated[Path, typer.Option(help="Teacher data and one folder per run; an existing one is continued.")],
    only: Annotated[str | None, typer.Option(help="Do this one run.")] = None,
) -> None:
    """Train several methods under one budget: the teacher's answers, phase 1, then every run of the recipe."""
    from dcoco_bench.training.recipe import follow, read_recipe

    follow(read_recipe(file), out, _say, only)


def _worker_of(part: str) -> tuple[int, int]:
    """`2/3` → (1, 3)."""
    worker, slash, workers = part.partition("/")
    if slash and worker.isdecimal() and workers.isdecimal() and 1 <= int(worker) <= int(workers):
        return int(worker) - 1, int(workers)
    raise UserError(f"--part {part}: not a worker of several; write e.g. --part 1/2 and --part 2/2")


def _say(text: str) -> None:
    typer.echo(text, err=True)
