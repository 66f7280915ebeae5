"""`dcoco-bench report` and `dcoco-bench doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RESULTS, REPORTS = Path("results"), Path("reports")


def register(app: typer.Typer) -> None:
    app.command("report")(report)
    app.command("compare")(compare)
    app.command("score")(score)
    app.command("doctor")(doctor)


def report(
    runs: Annotated[list[str] | None, typer.Argument(help="Run folders or names. Default: the latest run.")] = None,
    result_dir: Annotated[Path, typer.Option(help="Folder of all runs.")] = RESULTS,
    out: Annotated[Path | None, typer.Option(help="Where to write. Default reports/<run>.")] = None,
    against: Annotated[str, typer.Option(help="The drafter that the others are held against.")] = "dflash",
    save_vllm_json: Annotated[bool, typer.Option(help="Each cell also in the keys of vllm bench serve.")] = False,
) -> int:
    """Write tables with intervals from logs: Markdown and CSV. Needs no engine and no model."""
    from dcoco_bench.log_read import latest_run

    folders = [run_folder(name, result_dir) for name in runs or []] or [latest_run(result_dir)]
    where = out or REPORTS / "+".join(folder.name for folder in folders)
    write_report(folders, where, against)
    if save_vllm_json:
        from dcoco_bench.interop.exporting import write_vllm_json

        for file in write_vllm_json(folders, where / "vllm"):
            print(f"vllm json: {file}")
    return 0


def write_report(folders: list[Path], out: Path, against: str = "dflash") -> None:
    from dcoco_bench.report.command import report as make

    made = make(folders, out, against)
    for warning in made.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"report: {made.markdown}")


def compare(
    first: Annotated[str, typer.Argument(help="A run folder or name.")],
    second: Annotated[str, typer.Argument(help="The run it is held against.")],
    result_dir: Annotated[Path, typer.Option(help="Folder of all runs.")] = RESULTS,
    out: Annotated[Path | None, typer.Option(help="Write Markdown to this file too.")] = None,
) -> int:
    """Two runs side by side, paired by prompt; what cannot be compared is refused, with the reason."""
    from dcoco_bench.log_read import read_run
    from dcoco_bench.log_store import write_atomic
    from dcoco_bench.report.compare import compare as make
    from dcoco_bench.report.markdown import render

    table = make(read_run(run_folder(first, result_dir)), read_run(run_folder(second, result_dir)))
    text = render(table)
    print(text)
    if out:
        write_atomic(out, text)
    return 0


def score(
    run: Annotated[str | None, typer.Argument(help="A run folder or name. Default: the latest run.")] = None,
    result_dir: Annotated[Path, typer.Option(help="Folder of all runs.")] = RESULTS,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of <suite>.jsonl files and their refs/.")] = None,
    plugin_dir: Annotated[Path | None, typer.Option(help="Your suites.")] = None,
) -> int:
    """Hold the answers of a run against the suites' references; `report` then has a table of accuracy."""
    from dcoco_bench.log_read import latest_run
    from dcoco_bench.registry import Registry
    from dcoco_bench.scoring.score import score_run

    folder = run_folder(run, result_dir) if run else latest_run(result_dir)
    scored = score_run(folder, data_dir=data_dir, extra_dirs=Registry(plugin_dir).suite_dirs)
    right = sum(grade is True for cell in scored for grade in cell.grades.values())
    print(f"scored: {len(scored)} cells, {right} of {sum(len(c.grades) for c in scored)} answers right; now: report")
    return 0


def run_folder(name: str, result_dir: Path) -> Path:
    """A path as given, else a run's name in the result folder."""
    path = Path(name).expanduser()
    return path if path.exists() or not (result_dir / name).is_dir() else result_dir / name


def doctor() -> int:
    """What this machine can run, what is missing, and how to get it."""
    from dcoco_bench.doctor import run_doctor

    return run_doctor()
