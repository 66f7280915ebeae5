"""What `dcoco-bench generate` and `dcoco-bench train` do, given parsed flags."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from dcoco_bench.backbone import load_tokenizer, resolve_backbone
from dcoco_bench.drafting import checkpoint
from dcoco_bench.errors import UserError
from dcoco_bench.machine import default_device, fast_dtype
from dcoco_bench.method import MethodSpec
from dcoco_bench.registry import get_method
from dcoco_bench.training.generate import generate, read_prompts, sha256_of
from dcoco_bench.training.setup import DraftShape, prepare
from dcoco_bench.training.teacher import TeacherMeta, write_meta
from dcoco_bench.training.trainer import Settings, Trainer

Say = Callable[[str], None]


def default_taps(layers: int, count: int) -> tuple[int, ...]:
    """`round(1 + i (T-4)/(L-1))`, i = 0..L-1, halves up (z-lab, SpecForge; methods.md 1.2)."""
    if count == 1:
        return (layers // 2,)
    return tuple(int(1 + i * (layers - 4) / (count - 1) + 0.5) for i in range(count))


@dataclass(frozen=True)
class GenerateRequest:
    prompts: Path
    out: Path
    backbone: str = "smollm2-135m"
    count: int = 1000
    concurrency: int = 64
    max_tokens: int = 192
    max_prompt: int = 320
    taps: tuple[int, ...] | None = None
    part: tuple[int, int] = (0, 1)  # this worker, of how many


def run_generate(request: GenerateRequest, say: Say) -> None:
    """Teacher data into `request.out`; goes on where an earlier call stopped."""
    from dcoco_bench.engines.torch.opening import open_target, stop_ids
    from dcoco_bench.engines.torch.target import FINAL
    from dcoco_bench.prompts import render

    for flag, value in (
        ("--count", request.count),
        ("--conc", request.concurrency),
        ("--max-tokens", request.max_tokens),
    ):
        if value < 1:
            raise UserError(f"{flag} {value}: must be at least 1")
    prompts = read_prompts(request.prompts)
    backbone = resolve_backbone(request.backbone)
    tokenizer = load_tokenizer(backbone)
    dtype = fast_dtype(default_device())
    target = open_target(backbone, dtype, {})
    chosen = request.taps or default_taps(target.config.num_hidden_layers, 5)
    if bad := [t for t in chosen if not 0 <= t < target.config.num_hidden_layers - 1]:
        raise UserError(f"--taps {bad[0]}: the target's usable layers are 0..{target.config.num_hidden_layers - 2}")
    taps = (*chosen, FINAL)
    meta = TeacherMeta(
        backbone.label, list(taps), target.config.hidden_size, request.max_tokens, dtype, sha256_of(request.prompts)
    )
    _writable(request.out)
    write_meta(request.out, meta)
    began = last = perf_counter()
    answers = tokens = 0
    for answers, tokens in generate(
        target,
        lambda text: render(tokenizer, [{"role": "user", "content": text}], False),
        prompts,
        request.out,
        taps=taps,
        stop_ids=stop_ids(target.model, tokenizer),
        concurrency=request.concurrency,
        max_tokens=request.max_tokens,
        max_prompt=request.max_prompt,
        count=request.count,
        part=request.part,
    ):
        if perf_counter() - last > 15:
            last = perf_counter()
            share = answers / request.count
            left = f", {(last - began) * (1 / share - 1) / 60:.0f} min left" if answers else ""
            say(f"{answers}/{request.count} answers, {tokens} tokens{left}")
    say(f"{answers} answers, {tokens} tokens in {request.out}")


@dataclass(frozen=True)
class TrainRequest:
    method: str
    teacher: Path
    out: Path
    settings: Settings
    shape: DraftShape
    backbone: str = "smollm2-135m"
    start: Path | None = None
    resume: bool = False
    soft: float = 0.0  # share of the drafter's loss that follows the target's distribution


def run_train(request: TrainRequest, say: Say) -> float:
    """Train, keep the curve, write the checkpoint into `request.out`. Returns held-out tau."""

    if request.settings.steps is None and request.settings.seconds is None:
        raise UserError("train needs a budget: give --minutes, or --steps")
    state = request.out / "state.pt"
    if state.exists() and not request.resume:
        raise UserError(f"{request.out} holds a training run; go on with --resume, or choose a new --out")
    spec, backbone = MethodSpec.parse(request.method), resolve_backbone(request.backbone)
    method = get_method(spec.name)
    params = spec.resolve_for_training(method.params)
    folder = backbone.folder()
    start = checkpoint.load(request.start) if request.start else None
    stops = frozenset({load_tokenizer(backbone).eos_token_id})
    ready = prepare(
        method,
        params,
        backbone,
        folder,
        request.teacher,
        request.shape,
        start=start,
        stop_ids=stops,
        seed=request.settings.seed,
    )
    _writable(request.out)
    say(
        f"{len(ready.train)} answers to train on, {len(ready.held_out)} held out; the draft vocabulary of "
        f"{len(ready.objective.vocabulary)} covers {ready.coverage:.1%} of held-out tokens"
    )
    ready.objective.soft_share = request.soft
    objective = ready.objective.to(default_device())
    trainer = Trainer(objective, ready.train, ready.held_out, request.out, request.settings)
    if request.resume and trainer.resume():
        say(f"resumed at step {trainer.step}, {trainer.blocks} blocks, {trainer.elapsed / 60:.1f} min")

    def tell(row: dict[str, float]) -> None:
        left = trainer.elapsed * (1 / max(trainer.progress, 1e-6) - 1) / 60
        shown = " ".join(f"{k} {row[k]:.3f}" for k in ("ce", "slot1", "accepted", "tau") if k in row)
        say(f"step {trainer.step} blocks {trainer.blocks} {shown} ({left:.0f} min left)")

    final = trainer.run(tell)
    objective.cpu().eval().calibrate(ready.held_out)
    method.save(request.out, objective, ready.tables)
    say(f"held-out tau {final.tau:.3f} over {final.rounds} rounds; checkpoint in {request.out}")
    return final.tau


def _writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror}; choose a folder that can be written") from None
    if not os.access(folder, os.W_OK):
        raise UserError(f"--out {folder}: not writable; choose another folder")
