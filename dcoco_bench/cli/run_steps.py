"""The steps of `run`, shared with `demo`: matrix, plan, measure, print."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from dcoco_bench.cells import Matrix
from dcoco_bench.cli.console import stdout
from dcoco_bench.cli.matrix import MatrixFlags, build_matrix, matrix_checkpoints
from dcoco_bench.cli.tables import dry_run_table
from dcoco_bench.engines.opening import parse_engine_args
from dcoco_bench.errors import UserError
from dcoco_bench.estimate import estimate
from dcoco_bench.log_read import latest_run, list_runs, read_run, read_run_record
from dcoco_bench.log_store import RUN_FILE
from dcoco_bench.plan import Plan
from dcoco_bench.progress import RunProgress, make_progress
from dcoco_bench.registry import Registry
from dcoco_bench.run import execute


@dataclass(frozen=True)
class RunRequest:
    flags: MatrixFlags
    matrix_file: Path | None = None
    result_dir: Path = Path("results")
    run_name: str | None = None
    resume: bool = False
    dry_run: bool = False
    checkpoints: Mapping[str, Path] = field(default_factory=dict)
    plugin_dir: Path | None = None
    data_dir: Path | None = None


@dataclass(frozen=True)
class Performed:
    run_dir: Path | None
    exit_code: int


def perform(request: RunRequest) -> Performed:
    """Exit code 0, or 1 when a cell failed. Raises UserError before anything is written when the input is bad."""
    registry = Registry(request.plugin_dir)
    run_dir = _chosen_dir(request)
    if request.resume and not request.flags.given and not request.matrix_file:
        run_dir = run_dir or latest_run(request.result_dir)
        matrix = read_run_record(run_dir).matrix
    else:
        matrix = build_matrix(request.flags, request.matrix_file, registry)
    named = matrix_checkpoints(request.matrix_file) if request.matrix_file else {}
    plan = Plan(matrix, registry, checkpoints={**named, **request.checkpoints}, data_dir=request.data_dir)
    if not request.dry_run:  # a plan for another machine may be listed here
        plan.kind.require(parse_engine_args(matrix.engine_args))
    lacking: list[str] | None = [] if request.dry_run else None
    plan.check(lacking)
    if lacking is not None:
        for need in dict.fromkeys(lacking):
            print(f"needed first: {need}", file=sys.stderr)
        guess = estimate(plan, request.result_dir)
        stdout().print(dry_run_table(plan, guess))
        return Performed(None, 0)
    if run_dir is None:
        run_dir = _same_matrix(request.result_dir, matrix) if request.resume else _new_dir(request.result_dir, matrix)
    progress = make_progress()
    try:
        announce(plan, run_dir, progress)
        outcome = execute(plan, run_dir, progress, resume=request.resume)
    finally:
        progress.close()
    from dcoco_bench.report.console import summary_table

    stdout().print(summary_table(read_run(run_dir)))
    for label, reason in outcome.failed.items():
        print(f"failed: {label}: {reason}", file=sys.stderr)
    print(f"log: {run_dir}\nreport: dcoco-bench report {run_dir}")
    return Performed(run_dir, 1 if outcome.failed else 0)


def announce(plan: Plan, run_dir: Path, progress: RunProgress) -> None:
    m = plan.matrix
    prompts = []
    for name in m.suites:
        record = plan.prompts(name).record()
        note = " from our own SAMPLE, not the suite itself" if record.origin == "sample" else ""
        prompts.append(f"{name} ({record.prompts} prompts{note})")
    progress.note(
        f"{len(plan.cells)} cells on {m.engine} ({m.dtype}), {', '.join(m.backbones)}: {', '.join(m.methods)}; "
        f"{'; '.join(prompts)}; at most {m.max_tokens} tokens per answer → {run_dir}"
    )


def _chosen_dir(request: RunRequest) -> Path | None:
    """The folder that --run-name says: a name under the result folder, or with --resume a run folder's path."""
    name = request.run_name
    if name is None:
        return None
    if request.resume and (Path(name) / RUN_FILE).is_file():
        return Path(name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"--run-name {name!r}: use letters, digits, dot, dash and underscore only")
    run_dir = request.result_dir / name
    if request.resume and not (run_dir / RUN_FILE).is_file():
        known = [path.name for path in list_runs(request.result_dir)]
        raise UserError(
            f"--resume --run-name {name}: no such run in {request.result_dir}; known: {', '.join(known) or 'none'}"
        )
    return run_dir


def _same_matrix(result_dir: Path, matrix: Matrix) -> Path:
    runs = list_runs(result_dir)
    for path in reversed(runs):
        try:
            if read_run_record(path).matrix == matrix:
                return path
        except UserError:  # a broken or newer run that was not asked for
            continue
    if not runs:
        raise UserError(f"--resume: no run in {result_dir}; run without --resume to start one")
    raise UserError(
        f"--resume: no run in {result_dir} has this matrix (latest: {runs[-1].name}); "
        "give its flags again, only --resume for the latest run, or run without --resume"
    )


def _new_dir(result_dir: Path, matrix: Matrix) -> Path:
    short = hashlib.sha256(matrix.model_dump_json().encode()).hexdigest()[:6]
    stem = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{short}"
    run_dir, n = result_dir / stem, 1
    while run_dir.exists():
        n += 1
        run_dir = result_dir / f"{stem}-{n}"
    return run_dir
