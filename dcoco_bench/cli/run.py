"""`dcoco-bench run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcoco_bench.errors import UserError

RESULTS = Path("results")
_MATRIX, _LOAD, _OUTPUT, _MORE = "What to measure", "How to decode", "Where results go", "Plug-ins and data"


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    suite: Annotated[
        str | None, typer.Option(help="Suites, comma-separated, or `all`.", rich_help_panel=_MATRIX)
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Methods, e.g. `vanilla,dflash@n=4`. Default: all with a checkpoint.", rich_help_panel=_MATRIX
        ),
    ] = None,
    conc: Annotated[
        str | None,
        typer.Option("--conc", "--max-concurrency", help="Streams, e.g. `1,4,32`. Default 1.", rich_help_panel=_MATRIX),
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Target models. Default smollm2-135m.", rich_help_panel=_MATRIX)
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="torch (default), replay or vllm.", rich_help_panel=_MATRIX)
    ] = None,
    matrix: Annotated[
        Path | None, typer.Option(help="A TOML file with the matrix; flags win over it.", rich_help_panel=_MATRIX)
    ] = None,
    temperature: Annotated[str | None, typer.Option(help="e.g. `0,1`. Default 0.", rich_help_panel=_LOAD)] = None,
    top_p: Annotated[float | None, typer.Option(help="At T > 0. Default 1, off.", rich_help_panel=_LOAD)] = None,
    top_k: Annotated[int | None, typer.Option(help="At T > 0. Default 0, off.", rich_help_panel=_LOAD)] = None,
    thinking: Annotated[
        str | None, typer.Option(help="off, on or `off,on`. Default off.", rich_help_panel=_LOAD)
    ] = None,
    turns: Annotated[
        str | None, typer.Option(help="Multi-turn suites: all (default) or first.", rich_help_panel=_LOAD)
    ] = None,
    num_prompts: Annotated[
        int | None, typer.Option(help="Per suite; -1 = all. Default 32 (vllm: all).", rich_help_panel=_LOAD)
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Per answer. Default 128 (vllm: 2048).", rich_help_panel=_LOAD)
    ] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", "--seed", help="At T > 0.", rich_help_panel=_LOAD)] = None,
    dtype: Annotated[str | None, typer.Option(help="auto, float32 or bfloat16.", rich_help_panel=_LOAD)] = None,
    record_candidates: Annotated[
        bool | None,
        typer.Option("--record-candidates", help="Log the drafter's top tokens per slot.", rich_help_panel=_LOAD),
    ] = None,
    engine_arg: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE for the engine; repeatable.", rich_help_panel=_LOAD)
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Attach to this vLLM server instead of starting one (one method).", rich_help_panel=_LOAD),
    ] = None,
    result_dir: Annotated[Path, typer.Option(help="Folder of all runs.", rich_help_panel=_OUTPUT)] = RESULTS,
    run_name: Annotated[str | None, typer.Option(help="Default: date, time, hash.", rich_help_panel=_OUTPUT)] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the run of this name, else the latest of this matrix.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the cells and an estimate.", rich_help_panel=_OUTPUT)
    ] = False,
    checkpoint: Annotated[
        list[str] | None, typer.Option(help="METHOD=FOLDER of a draft; repeatable.", rich_help_panel=_MORE)
    ] = None,
    plugin_dir: Annotated[Path | None, typer.Option(help="Your methods and suites.", rich_help_panel=_MORE)] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of <suite>.jsonl, else $DCOCO_BENCH_DATA.", rich_help_panel=_MORE)
    ] = None,
) -> int:
    """Measure every cell of a matrix: method × suite × concurrency × temperature on one engine."""
    from dcoco_bench.cli.matrix import MatrixFlags
    from dcoco_bench.cli.run_steps import RunRequest, perform

    flags = MatrixFlags(
        suite=suite,
        method=method,
        conc=conc,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        thinking=thinking,
        backbone=backbone,
        engine=engine,
        num_prompts=num_prompts,
        max_tokens=max_tokens,
        seeds=seeds,
        turns=turns,
        dtype=dtype,
        record_candidates=record_candidates,
        engine_args=(*(engine_arg or ()), *((f"base-url={base_url}",) if base_url else ())),
    )
    request = RunRequest(
        flags=flags,
        matrix_file=matrix,
        result_dir=result_dir,
        run_name=run_name,
        resume=resume,
        dry_run=dry_run,
        checkpoints=parse_checkpoints(checkpoint or []),
        plugin_dir=plugin_dir,
        data_dir=data_dir,
    )
    return perform(request).exit_code


def parse_checkpoints(pairs: list[str]) -> dict[str, Path]:
    """`dcoco@pair=off=folder` → {"dcoco@pair=off": Path("folder")}."""
    found: dict[str, Path] = {}
    for pair in pairs:
        spec, eq, path = pair.rpartition("=")
        if not eq or not spec or not path:
            raise UserError(f"--checkpoint {pair}: not METHOD=FOLDER; write e.g. --checkpoint dflash=my/checkpoint")
        found[spec] = Path(path).expanduser()
    return found
