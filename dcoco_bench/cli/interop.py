"""`dcoco-bench import`: results of `vllm bench serve` as a run of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcoco_bench.cli.results import RESULTS
from dcoco_bench.errors import UserError


def register(app: typer.Typer) -> None:
    app.command("import")(import_results)


def import_results(
    files: Annotated[list[str], typer.Argument(help="METHOD=FILE, e.g. vanilla=base.json dflash=spec.json.")],
    run_name: Annotated[str, typer.Option(help="Name of the new run.")],
    suite: Annotated[str, typer.Option(help="What was decoded: their file does not say.")],
    backbone: Annotated[str | None, typer.Option(help="The target. Default: the file's model_id.")] = None,
    temperature: Annotated[float, typer.Option(help="As the benchmark was run.", min=0)] = 0.0,
    result_dir: Annotated[Path, typer.Option(help="Folder of all runs.")] = RESULTS,
) -> int:
    """Results of vllm bench serve --save-detailed as a run, for `report`, `compare` and `gate`."""
    from dcoco_bench.interop.importing import import_run

    named = [word.partition("=") for word in files]
    if bad := [method + eq + file for method, eq, file in named if not eq or not file]:
        raise UserError(f"{bad[0]!r} is not METHOD=FILE; write e.g. vanilla=base.json")
    pairs = [(method, Path(file).expanduser()) for method, _, file in named]
    folder = import_run(pairs, result_dir / run_name, suite, backbone, temperature)
    typer.echo(f"log: {folder}\nreport: dcoco-bench report {folder}")
    return 0
