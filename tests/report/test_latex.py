"""LaTeX: nothing that TeX would read as a command, nothing lost, blocks in balance. `tests/benchmarks` compiles it."""

from __future__ import annotations

import re

import pytest

from dcoco_bench.cells import Matrix
from dcoco_bench.report import latex
from dcoco_bench.report.command import report
from dcoco_bench.report.table import Column, Entry, Missing, Table

COLUMNS = (
    Column("suite", "suite_name"),
    Column("dflash", "DFlash", 1, interval=True, group="T=0", aside=Column("speedup", "", 2, interval=True)),
    Column("dcoco", "100 % & more", 1, group="T=0"),
)


@pytest.fixture
def table():
    t = Table("t", "Cost: 5 $ #1", "All {values} ~ τ.", COLUMNS)
    t.add(suite=Entry("a_b"), dflash=Entry(30.0, 29.0, 31.0, aside=Entry(1.5, 1.4, 1.6), best=True), dcoco=Entry(1))
    t.add(suite=Entry("c"), dflash=Entry(None, reason="no vanilla"))
    t.missing.append(Missing("dcoco on c", "dcoco-bench run --method dcoco@k=8"))
    return t


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        (r"50 % of a_b & c#d", r"50 \% of a\_b \& c\#d"),
        (r"\input{x} $y$ ~z^2", r"\textbackslash{}input\{x\} \$y\$ \textasciitilde{}z\textasciicircum{}2"),
        ("τ ≤ 1 − x ± 2", r"$\tau$ $\leq$ 1 $-$ x $\pm$ 2"),
        ("--engine", r"-{}-engine"),
        ("---", r"-{}-{}-"),
        ("naïve é", "naïve é"),
        ("中 ①", "[U+4E2D] 1"),
        ("it's \"so\"", r"it{\textquotesingle}s \textquotedbl{}so\textquotedbl{}"),
    ],
)  # fmt: skip
def test_escape(text, tex):
    assert latex.escape(text) == tex


def test_a_table_has_groups_bold_intervals_notes_and_commands(table):
    text = latex.render([table])
    assert r"\multicolumn{2}{c}{T=0}" in text
    assert r"\cmidrule(lr){2-3}" in text
    assert r"\shortstack[r]{\textbf{30.0} (1.50)\\{\tiny [29.0, 31.0] ([1.40, 1.60])}}" in text
    assert r"c & \textsuperscript{(a)} &" in text
    assert "(a) no vanilla." in text
    assert r"{\ttfamily dcoco-bench run -{}-method dcoco@k=8}" in text
    assert r"100 \% \& more" in text


def test_a_long_table_is_cut_into_parts_with_their_heads(table):
    table.rows = [table.rows[0]] * (latex.ROWS + 1)
    text = latex.render([table])
    assert text.count(r"\toprule") == text.count(r"\begin{table}") == 2
    assert "(part 2 of 2)" in text
    assert text.count("All \\{values\\}") == 1


def test_an_empty_table_says_so():
    assert "Nothing to show." in latex.render([Table("t", "Title", "Caption.", COLUMNS)])


def test_the_report_inputs_every_table_and_its_blocks_are_balanced(write_test_run, tmp_path):
    run = write_test_run(Matrix(methods=("vanilla", "dflash", "dcoco"), suites=("gsm8k", "mbpp"), concurrency=(1, 4)))
    made = report([run], tmp_path / "out")
    text = (tmp_path / "out" / "report.tex").read_text(encoding="utf-8")
    inputs = re.findall(r"\\input\{(tables/[\w-]+\.tex)\}", text)
    assert inputs[0] == "tables/table1.tex"
    assert len(inputs) == len({t.name for t in [*made.tables, *made.paper.tables]})
    for name in inputs:
        body = (tmp_path / "out" / name).read_text(encoding="utf-8")
        opened, closed = (sorted(re.findall(rf"\\{word}\{{(\w+)\}}", body)) for word in ("begin", "end"))
        assert opened == closed
        assert "table" in opened
        plain = re.sub(r"\\[\\{}%]", "", body)
        assert plain.count("{") == plain.count("}")
        for block in re.findall(r"\\midrule\n(.*?)\\bottomrule", body, re.DOTALL):
            assert len({len(re.findall(r"(?<!\\)&", line)) for line in block.splitlines() if "&" in line}) == 1
