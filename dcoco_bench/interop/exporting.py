"""Run folders → one JSON file a cell in the keys of `vllm bench serve`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dcoco_bench.interop.vllm_write import as_vllm_json
from dcoco_bench.log_read import read_run
from dcoco_bench.log_store import write_atomic
from dcoco_bench.stats.cells import CellLog


def write_vllm_json(run_dirs: Sequence[Path], out: Path) -> list[Path]:
    """`<run>-<cell id>.json` for every finished cell. Raises UserError on a folder that is no run."""
    files = []
    for run in map(read_run, run_dirs):
        for cell in run.cells:
            if cell.record is not None and cell.requests:
                files.append(out / f"{run.name}-{cell.id}.json")
                write_atomic(files[-1], json.dumps(as_vllm_json(CellLog(cell.record, cell.requests)), indent=1) + "\n")
    return files
