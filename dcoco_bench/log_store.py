"""Writing a run folder so that a crash loses at most the requests in flight, and a full disk says so."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from types import TracebackType

from pydantic import BaseModel

from dcoco_bench.errors import UserError
from dcoco_bench.log import CellRecord, RequestRecord, RunRecord, ScoreRecord

RUN_FILE, CELL_FILE, REQUESTS_FILE, SCORES_FILE = "run.json", "cell.json", "requests.jsonl", "scores.json"
SYNC_S = 1.0


def cell_dir(run_dir: Path, cell_id: str) -> Path:
    return run_dir / "cells" / cell_id


def storage_error(path: Path, error: OSError) -> UserError:
    """The one line for a folder that cannot be written: full disk, no permission, a file in the way."""
    mend = "give a writable folder with --result-dir"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        mend = "free some space and go on with: dcoco-bench run --resume"
    return UserError(f"cannot write {path}: {error.strerror or error}; {mend}")


def make_dir(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(path, error) from None
    return path


def write_atomic(path: Path, text: str) -> None:
    """The file is either the old one or the whole new one, also after a power cut."""
    make_dir(path.parent)
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_dir(path.parent)
    except OSError as error:
        raise storage_error(path, error) from None


def write_run(run_dir: Path, record: RunRecord) -> None:
    write_atomic(run_dir / RUN_FILE, _pretty(record))


def write_cell(run_dir: Path, record: CellRecord) -> None:
    write_atomic(cell_dir(run_dir, record.id) / CELL_FILE, _pretty(record))


def write_scores(run_dir: Path, record: ScoreRecord) -> None:
    write_atomic(cell_dir(run_dir, record.id) / SCORES_FILE, _pretty(record))


def _pretty(record: BaseModel) -> str:
    return record.model_dump_json(by_alias=True, indent=1) + "\n"


def _sync_dir(path: Path) -> None:
    """Make a rename durable. Not every file system can sync a folder; that is no reason to stop."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def mend_tail(path: Path) -> int:
    """Cut a torn last line (no newline: the writer was killed inside it) before appending. Returns the bytes cut."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        keep, block = 0, 1 << 16
        position = size
        while position > 0:
            start = max(0, position - block)
            file.seek(start)
            at = file.read(position - start).rfind(b"\n")
            if at >= 0:
                keep = start + at + 1
                break
            position = start
        if keep < size:
            file.truncate(keep)
            os.fsync(file.fileno())
    return size - keep


class LogWriter:
    """Appends request lines to one cell's log.

    Lines reach the system at once, so killing this process loses none of them. Syncing to the disk, against a power
    cut, happens at most every `SYNC_S`: it would stall all streams if each request waited for it.
    """

    def __init__(self, run_dir: Path, cell_id: str) -> None:
        self.path = make_dir(cell_dir(run_dir, cell_id)) / REQUESTS_FILE
        try:
            self.bytes_mended = mend_tail(self.path)
            self._file = self.path.open("ab")
            self._synced = monotonic()
        except OSError as error:
            raise storage_error(self.path, error) from None

    def append(self, records: Iterable[RequestRecord]) -> None:
        """One write for all that finished together. Raises UserError when the disk is full."""
        lines = "".join(r.model_dump_json() + "\n" for r in records)
        if not lines:
            return
        try:
            self._file.write(lines.encode())
            self._file.flush()
            if monotonic() - self._synced > SYNC_S:
                self.sync()
        except OSError as error:
            raise storage_error(self.path, error) from None

    def sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = monotonic()

    def close(self) -> None:
        try:
            self.sync()
            self._file.close()
        except OSError as error:
            raise storage_error(self.path, error) from None

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        try:
            self.close()
        except UserError:
            if kind is None:  # else the first error says more
                raise
