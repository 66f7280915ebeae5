"""Result files → a run folder, all or nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dcoco_bench.cells import Matrix, Sampling
from dcoco_bench.errors import UserError
from dcoco_bench.interop.vllm_read import ENGINE, Labels, convert, read_results
from dcoco_bench.log import RunRecord
from dcoco_bench.log_store import LogWriter, write_cell, write_run
from dcoco_bench.provenance import utc_now


def import_run(
    files: Sequence[tuple[str, Path]], folder: Path, suite: str, backbone: str | None, temperature: float
) -> Path:
    """`files`: method and result file. Raises UserError on bad input, before anything is written."""
    if folder.exists():
        raise UserError(f"--run-name {folder.name}: {folder} exists; choose a new name")
    cells = [
        convert(result, Labels(method, suite, backbone, temperature), f"{file}, result {number}")
        for method, file in files
        for number, result in enumerate(read_results(file), start=1)
    ]
    ids = [record.id for record, _ in cells]
    if twice := next((record for record, _ in cells if ids.count(record.id) > 1), None):
        raise UserError(f"two results are one cell ({twice.cell.label}); import them into runs of their own")
    made = [record.cell for record, _ in cells]
    matrix = Matrix(
        engine=ENGINE,
        backbones=tuple(c.backbone for c in made),
        methods=tuple(c.method for c in made),
        suites=(suite,),
        concurrency=tuple(c.concurrency for c in made),
        samplings=(Sampling(temperature=temperature),),
    )
    command = ["dcoco-bench", *sys.argv[1:]]
    record = RunRecord(name=folder.name, created=utc_now(), command=command, matrix=matrix, cells=ids, provenance={})
    write_run(folder, record)
    for cell, requests in cells:
        with LogWriter(folder, cell.id) as log:
            log.append(requests)
        write_cell(folder, cell)
    return folder
