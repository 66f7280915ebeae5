"""A run: the cells of a plan, one after the other, each logged and finished by itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from dcoco_bench.cells import Cell
from dcoco_bench.engine_pool import EnginePool
from dcoco_bench.engines.base import Engine
from dcoco_bench.errors import UserError
from dcoco_bench.log import CellRecord, RunRecord
from dcoco_bench.log_read import read_cell_record, read_requests, read_run_record
from dcoco_bench.log_store import REQUESTS_FILE, RUN_FILE, cell_dir, make_dir, write_cell, write_run
from dcoco_bench.measure import CellJob, measure
from dcoco_bench.plan import Plan
from dcoco_bench.progress import RunProgress
from dcoco_bench.provenance import collect, current_command, utc_now
from dcoco_bench.stats.cells import CellLog


@dataclass
class Outcome:
    """What a run left behind. `failed` maps the label of a failed cell to its reason."""

    run_dir: Path
    measured: int
    skipped: int
    failed: dict[str, str]


def execute(plan: Plan, run_dir: Path, progress: RunProgress, *, resume: bool = False) -> Outcome:
    """Measure every cell that is not finished yet.

    A failed cell does not stop the run. Raises UserError on bad input and unwritable folders, KeyboardInterrupt on
    Ctrl-C and SIGTERM; whatever was logged before stays, and a resume goes on from there.
    """
    provenance = {**collect(torch_state=plan.kind.needs_weights), **plan.fingerprint()}
    outcome = Outcome(run_dir, 0, 0, {})
    opener = partial(plan.open_engine, log_dir=run_dir / "servers")
    with _terminate_as_interrupt(), _sole_writer(run_dir), EnginePool(opener, plan.kind.keep_open) as pool:
        if resume:
            check_same(plan, read_run_record(run_dir))
        else:
            _check_new(run_dir)
        pending = [c for c in plan.cells if not (resume and _finished(run_dir, c))]
        if pending:
            pool.open_ahead(pending)
        if not resume:
            _create(plan, run_dir, provenance)
        progress.run_started(len(plan.cells))
        for number, cell in enumerate(plan.cells, 1):
            if cell not in pending:
                outcome.skipped += 1
                progress.note(f"[{number}/{len(plan.cells)}] {cell.label}: finished before, skipped")
                continue
            record = _run_cell(plan, pool, cell, number, run_dir, progress, provenance)
            outcome.measured += 1
            if record.status == "failed":
                outcome.failed[cell.label] = record.error or "no reason given"
            progress.cell_ended("done" if record.status == "ok" else f"FAILED: {record.error}")
            if doubt := _doubt(run_dir, record):
                progress.note(f"WARNING: {cell.label}: {doubt}")
    return outcome


def _finished(run_dir: Path, cell: Cell) -> bool:
    record = read_cell_record(cell_dir(run_dir, cell.id))
    return record is not None and record.status == "ok"


def _doubt(run_dir: Path, record: CellRecord) -> str | None:
    """What to tell the user at once, hours before the report would."""
    if record.status != "ok":
        return None
    log = CellLog(record, read_requests(cell_dir(run_dir, record.cell.id) / REQUESTS_FILE).records)
    return log.acceptance.inactive or log.acceptance.misfit


def _run_cell(
    plan: Plan,
    pool: EnginePool,
    cell: Cell,
    number: int,
    run_dir: Path,
    progress: RunProgress,
    provenance: Mapping[str, Any],
) -> CellRecord:
    job = CellJob(
        cell=cell,
        prompts=plan.prompts(cell.suite),
        tokenizer=plan.tokenizer(cell.backbone),
        max_context=plan.max_context(cell.backbone),
        run_dir=run_dir,
        provenance={**provenance, "checkpoint": plan.checkpoint_hash(cell), "started": utc_now()},
    )
    engine: Engine | None = None
    try:
        engine = pool.get(cell)
    except UserError:
        raise
    except Exception as error:  # an engine may fail to open in any way (memory, a server that dies)
        record = job.failed(f"the engine did not open: {one_line(error)}", progress, number)
    else:
        record = measure(job, engine, progress, number)
        if record.status == "failed":
            pool.drop(cell)
    write_cell(run_dir, record)
    return record


def one_line(error: BaseException) -> str:
    text = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {text}"


def check_same(plan: Plan, before: RunRecord) -> None:
    """Raises UserError when resuming would mix two measurements: another matrix, other prompts, other weights."""
    if plan.matrix != before.matrix:
        mine, theirs = plan.matrix.model_dump(), before.matrix.model_dump()
        changed = [f"{k} {theirs[k]} became {mine[k]}" for k in mine if mine[k] != theirs[k]]
        raise UserError(f"--resume {before.name}: the matrix differs ({'; '.join(changed)}); run without --resume")
    now = plan.fingerprint()
    for kind in now:
        old = before.provenance.get(kind, {})
        for name in now[kind]:
            if name in old and old[name] != now[kind][name]:
                raise UserError(
                    f"--resume {before.name}: {kind[:-1].replace('_', ' ')} {name} changed "
                    f"({old[name]} became {now[kind][name]}); bring the old one back, or run without --resume"
                )


def _check_new(run_dir: Path) -> None:
    if (run_dir / RUN_FILE).exists():
        raise UserError(f"--run-name {run_dir.name}: {run_dir} exists; add --resume to go on, or choose another name")


def _create(plan: Plan, run_dir: Path, provenance: dict[str, Any]) -> None:
    record = RunRecord(
        name=run_dir.name,
        created=utc_now(),
        command=current_command(),
        matrix=plan.matrix,
        cells=[cell.id for cell in plan.cells],
        provenance=provenance,
    )
    write_run(run_dir, record)


@contextlib.contextmanager
def _sole_writer(run_dir: Path) -> Iterator[None]:
    """Two processes must not append to one run. The lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        yield
        return
    make_dir(run_dir)
    try:
        lock = os.open(run_dir / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise UserError(f"cannot write {run_dir}: {error.strerror}; give a writable folder with --result-dir") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"run {run_dir} is being written by another process; wait for it or stop it") from None
        yield
    finally:
        os.close(lock)
        if not (run_dir / RUN_FILE).exists():  # nothing came of it: leave no empty folder
            with contextlib.suppress(OSError):
                (run_dir / ".lock").unlink()
                run_dir.rmdir()
                run_dir.parent.rmdir()  # goes only when it is empty


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM closes engines and logs in the same way as Ctrl-C."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread: whoever runs us there handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
