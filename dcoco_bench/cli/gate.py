"""`dcoco-bench gate BASELINE CURRENT` and `dcoco-bench gate calibrate RUN RUN …`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dcoco_bench.cli.results import RESULTS, run_folder
from dcoco_bench.errors import UserError

if TYPE_CHECKING:
    from dcoco_bench.gate.limits import Limits
    from dcoco_bench.log_read import Run

SUMMARY = "GITHUB_STEP_SUMMARY"


def register(app: typer.Typer) -> None:
    app.command("gate")(gate)


def gate(
    runs: Annotated[list[str], typer.Argument(help="BASELINE CURRENT, or: calibrate RUN RUN ... (of the same thing).")],
    max_tps_drop: Annotated[str | None, typer.Option(help="Speed that may be lost, e.g. 5% or 0.05.")] = None,
    max_tau_drop: Annotated[str | None, typer.Option(help="Accepted length that may be lost.")] = None,
    max_mismatch: Annotated[str | None, typer.Option(help="Share of greedy answers that may differ.")] = None,
    max_failures: Annotated[str | None, typer.Option(help="Share of prompts that may fail.")] = None,
    limits: Annotated[Path | None, typer.Option(help="A TOML file with these four (max_tps_drop = ...).")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the verdict as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write it as JUnit XML.")] = None,
    summary: Annotated[Path | None, typer.Option(help=f"Append Markdown. Default: ${SUMMARY}, where set.")] = None,
    result_dir: Annotated[Path, typer.Option(help="Folder of all runs.")] = RESULTS,
) -> int:
    """Fail when a run is worse than its baseline, and only on evidence.

    Exit codes: 0 pass, 1 regression, 2 bad input, 4 cannot tell (more prompts or seeds would), 5 no baseline.
    """
    from dcoco_bench.gate.limits import Limits
    from dcoco_bench.log_read import read_run

    given = {
        "max_tps_drop": max_tps_drop,
        "max_tau_drop": max_tau_drop,
        "max_mismatch": max_mismatch,
        "max_failures": max_failures,
    }
    allowed = Limits.read(limits) if limits else Limits()
    for name, value in given.items():
        if value is not None:
            allowed = allowed.with_values({name: value})
    calibrating = runs[0] == "calibrate"
    names = runs[1:] if calibrating else runs
    if len(names) < 2 or (len(names) > 2 and not calibrating):
        raise UserError("gate takes BASELINE and CURRENT, or `calibrate` and two or more runs of the same thing")
    read = [read_run(run_folder(name, result_dir)) for name in names]
    if calibrating:
        return _calibrate(read, allowed)

    from rich.console import Console

    from dcoco_bench.gate import gate as judge
    from dcoco_bench.gate import show
    from dcoco_bench.log_store import write_atomic

    verdict = judge.gate(read[0], read[1], allowed)
    Console().print(show.table(verdict))
    if json_file:
        write_atomic(json_file, show.as_json(verdict) + "\n")
    if junit:
        write_atomic(junit, show.as_junit(verdict))
    if where := summary or (Path(os.environ[SUMMARY]) if os.environ.get(SUMMARY) else None):
        with where.open("a", encoding="utf-8") as file:
            file.write(show.as_markdown(verdict))
    typer.echo(show.title(verdict))
    return judge.EXIT[verdict.outcome]


def _calibrate(runs: list[Run], limits: Limits) -> int:
    from dcoco_bench.gate.calibrate import calibrate

    noise, problems = calibrate(runs, limits)
    for problem in problems:
        typer.echo(f"not usable: {problem}")
    for n in noise:
        verdict = "fits" if n.fits else "too noisy for its limit"
        typer.echo(
            f"{n.metric}: a run and its repeat differ by up to {n.shift:.2%}, intervals reach ±{n.half_width:.2%}; "
            f"the smallest drop that can be told is {n.floor:.2%}, the limit {n.limit:.2%}: {verdict}"
        )
    good = bool(noise) and not problems and all(n.fits for n in noise)
    typer.echo("this baseline can be pinned" if good else "refused: do not pin this as a baseline")
    return 0 if good else 1
