"""Does the report's LaTeX compile? On demand: `python tests/benchmarks/check_latex.py [RUN ...]`.

Needs tectonic, or pdflatex (Debian: texlive-latex-base, texlive-latex-recommended, lmodern). Without a run, the replay
engine makes one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dcoco_bench.cli import main
from dcoco_bench.report.command import report

METHODS = "vanilla,vanilla@repeat=1,dflash,domino,dcoco,dcoco@pair=off,dcoco@select=global-sum"
REPLAY = ["--engine", "replay", "--method", METHODS, "--suite", "gsm8k,mbpp,mt-bench", "--conc", "1,4"]
REPLAY += ["--temperature", "0,1", "--seeds", "0,1", "--num-prompts", "10", "--record-candidates"]


def compiler() -> list[str]:
    if shutil.which("pdflatex"):
        return ["pdflatex", "-interaction=nonstopmode", "-halt-on-error"]
    if shutil.which("tectonic"):
        return ["tectonic", "--keep-logs"]
    raise SystemExit("no pdflatex and no tectonic on the path; apt-get install texlive-latex-recommended lmodern")


def replayed(folder: Path) -> Path:
    try:
        main(["run", *REPLAY, "--result-dir", str(folder), "--run-name", "replayed"])
    except SystemExit as end:
        if end.code:
            raise
    return folder / "replayed"


def check(runs: list[Path], work: Path) -> None:
    report(runs, work)
    command = compiler()
    done = subprocess.run([*command, "report.tex"], cwd=work, capture_output=True, text=True, check=False)
    if done.returncode or not (work / "report.pdf").is_file():
        raise SystemExit(f"report.tex does not compile:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    wide = [line for line in done.stdout.splitlines() if line.startswith("Overfull \\hbox")]
    if wide:
        raise SystemExit(f"{len(wide)} lines leave the page, the first: {wide[0]}")
    print(f"report.tex: {(work / 'report.pdf').stat().st_size:,} bytes of PDF by {command[0]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        given = [Path(name) for name in sys.argv[1:]]
        check(given or [replayed(Path(folder))], Path(folder) / "report")
