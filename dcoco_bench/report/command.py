"""`report`: from run folders to `report.md` and `tables/*.csv`. The same log gives the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dcoco_bench.errors import UserError
from dcoco_bench.log_read import read_run
from dcoco_bench.log_store import write_atomic
from dcoco_bench.report import csv_file, latex, markdown
from dcoco_bench.report.accuracy import accuracy_table
from dcoco_bench.report.figures.all import all_figures
from dcoco_bench.report.figures.figure import Figure
from dcoco_bench.report.html.page import page
from dcoco_bench.report.html.summary import summary
from dcoco_bench.report.lossless import lossless_table
from dcoco_bench.report.means import means_table
from dcoco_bench.report.paper.claims import claims_tables
from dcoco_bench.report.paper.tables import PaperTables, paper_tables
from dcoco_bench.report.points import Point, Setting, points_of, settings
from dcoco_bench.report.positions import candidate_depth, coverage_table, draft_width, positions_table
from dcoco_bench.report.provenance import provenance
from dcoco_bench.report.results import results_table
from dcoco_bench.report.table import Table
from dcoco_bench.report.versus import REFERENCE, versus_table

SAMPLE_NOTE = (
    "**Sample prompts.** The rows marked (sample) ran on the few prompts that this project wrote in the suite's form. "
    "They show that the tool works; they are not results on the suite.\n"
)
FIGURES = "figures"
PAPER_FILE = "paper.md"
PAPER_NOTE = (
    "The layouts of the paper, filled from the logs. What was not run is blank, and the command that fills it is "
    "listed. The paper's own numbers stand in rows called paper; they were measured on other hardware and mostly for "
    "another backbone.\n"
)


@dataclass(frozen=True)
class Report:
    """What was written. `warnings`: what the reader should know, one line each."""

    markdown: Path
    csv: list[Path]
    tables: list[Table]
    warnings: list[str]
    paper: PaperTables
    figures: list[Figure]


def report(run_dirs: list[Path], out: Path, against: str = REFERENCE) -> Report:
    """Write the report of one or several runs under `out`; drafters are also held against the drafter `against`.

    Runs keep tables of their own: a speed-up never crosses runs, hardware, settings, or sample and suite.
    Raises UserError on a folder that is no run, on a run named twice, and on an unwritable `out`.
    """
    if not run_dirs:
        raise UserError("no run to report; give a run folder, or make one with: dcoco-bench run --suite gsm8k")
    runs = [read_run(path) for path in run_dirs]
    names = [run.name for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"run {twice[0]!r} is given twice; name each run once")
    points = {run.name: points_of(run) for run in runs}
    groups = settings([p for run in runs for p in points[run.name]])
    sections = _sections(groups, against)
    tables = [table for section in sections for table in section]

    figures = all_figures(runs, groups, against)
    for figure in figures:
        figure.write(out / FIGURES)
    claimed = claims_tables(groups)
    told = [provenance(run, points[run.name]) for run in runs]
    sample = any(g.sample for g in groups)
    text = _document(names, [*sections, claimed], figures, told, sample)
    md = out / "report.md"
    write_atomic(md, text)
    older_first = sorted(runs, key=lambda run: run.record.created)
    paper = paper_tables([p for run in older_first for p in points[run.name]])
    write_atomic(out / PAPER_FILE, _paper_document(names, paper))
    tables = [*tables, *claimed]
    parts = [("Results", tables_of) for tables_of in sections]
    parts += [("Claim by claim", claimed), ("In the paper's layouts", paper.tables)]
    write_atomic(out / "report.html", page(", ".join(names), summary(groups, against), parts, figures, told))
    files = _write_tables([*paper.tables, *tables], ", ".join(names), paper, out)
    warnings = [problem for run in runs for problem in run.problems]
    warnings += [f"{p.run}: {log.cell.label}: {log.unusable}" for p in _all(points) for log in p.logs if log.unusable]
    return Report(md, files, tables, warnings, paper, figures)


def _write_tables(tables: list[Table], title: str, paper: PaperTables, out: Path) -> list[Path]:
    """`tables/<name>.csv` and `.tex`, and `report.tex`, which holds them all. Returns the CSV files."""
    files = []
    names = list(dict.fromkeys(t.name for t in tables))
    for name in names:
        same = [t for t in tables if t.name == name]
        files.append(out / "tables" / f"{name}.csv")
        write_atomic(files[-1], csv_file.render(same))
        write_atomic(out / "tables" / f"{name}.tex", latex.render(same))
    write_atomic(out / "report.tex", latex.document(title, names, paper.not_run))
    return files


def _paper_document(names: list[str], paper: PaperTables) -> str:
    parts = [f"# The paper's tables: {', '.join(names)}\n", PAPER_NOTE]
    parts += [markdown.render(table) for table in paper.tables]
    return "\n".join([*parts, *markdown.missing("Tables that these logs cannot fill:", paper.not_run)])


def _all(points: dict[str, list[Point]]) -> list[Point]:
    return [p for some in points.values() for p in some]


def _sections(groups: list[Setting], against: str) -> list[list[Table]]:
    """Tables of each setting, the main one first."""
    width, depth = draft_width(groups), candidate_depth(groups)
    made = [
        [
            results_table(g),
            means_table(g),
            versus_table(g, against),
            lossless_table(g),
            accuracy_table(g),
            positions_table(g, width),
            coverage_table(g, depth),
        ]
        for g in groups
    ]
    return [[t for t in tables if t is not None] for tables in made]


def _document(
    names: list[str], sections: list[list[Table]], figures: list[Figure], told: list[str], sample: bool
) -> str:
    parts = [f"# {', '.join(names)}\n", f"In the paper's layouts: [{PAPER_FILE}]({PAPER_FILE}).\n"]
    if sample:
        parts.append(SAMPLE_NOTE)
    for tables in sections:
        parts += [markdown.render(table, 2 if i == 0 else 3) for i, table in enumerate(tables)]
    if figures:
        parts.append("## Figures\n\nAlso as SVG and PDF, with their data as CSV, in the same folder.\n")
        parts += [f"### {f.title}\n\n![{f.title}]({FIGURES}/{f.name}.png)\n\n{f.caption}\n" for f in figures]
    parts.append("## Provenance\n")
    parts += told
    return "\n".join(parts)
