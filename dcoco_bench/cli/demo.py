"""`dcoco-bench demo`: vanilla against DFlash in minutes, with a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcoco_bench.cli.results import REPORTS, RESULTS, write_report

PROMPTS, TOKENS = 8, 96  # a few hundred tokens per stream: minutes on two cores


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    result_dir: Annotated[Path, typer.Option(help="Folder of all runs.")] = RESULTS,
    engine: Annotated[str, typer.Option(help="torch, or replay for a dry rehearsal.")] = "torch",
) -> int:
    """Vanilla against DFlash on GSM8K at 1 and 4 streams, on the embedded model; then the report."""
    from dcoco_bench.cli.matrix import MatrixFlags
    from dcoco_bench.cli.run_steps import RunRequest, perform

    flags = MatrixFlags(
        suite="gsm8k", method="vanilla,dflash", conc="1,4", num_prompts=PROMPTS, max_tokens=TOKENS, engine=engine
    )
    done = perform(RunRequest(flags, result_dir=result_dir))
    if done.run_dir:
        write_report([done.run_dir], REPORTS / done.run_dir.name)
    return done.exit_code
