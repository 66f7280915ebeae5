"""The table model and its writers."""

from __future__ import annotations

import pytest

from dcoco_bench.report import csv_file, markdown
from dcoco_bench.report.table import Column, Entry, Missing, Table, readable
from dcoco_bench.stats.intervals import Estimate

COLUMNS = (
    Column("suite", "suite"),
    Column("rate", "rate %", 1, 100, interval=True),
    Column("hidden", "", shown=False),
    Column("never", "never"),
)


@pytest.fixture
def table():
    t = Table("t", "Title", "Caption.", COLUMNS)
    t.add(suite=Entry("a|b"), rate=Entry(0.5, 0.25, 0.75), hidden=Entry(1 / 3))
    t.add(suite=Entry("c"), rate=Entry.of(Estimate(None, reason="not measured")))
    t.add(suite=Entry("d"), rate=Entry.of(Estimate(0.0, reason="no interval: 1 prompts")))
    t.add(suite=Entry("e"), rate=Entry(None, reason="not measured"))
    return t


def test_markdown(table):
    assert markdown.render(table).splitlines() == [
        "## Title",
        "",
        "Caption.",
        "",
        "| suite | rate % |",
        "|---|---:|",
        "| a\\|b | 50.0 [25.0, 75.0] |",
        "| c | (a) |",
        "| d | 0.0 (b) |",
        "| e | (a) |",
        "",
        "(a) not measured  ",
        "(b) no interval: 1 prompts  ",
    ]


def test_csv_is_full_precision_and_missing_is_empty(table):
    assert csv_file.render([table]).splitlines() == [
        "suite,rate,rate_lo,rate_hi,rate_sd,hidden,never,notes",
        "a|b,0.5,0.25,0.75,,0.333333333333,,",
        "c,,,,,,,rate: not measured",
        "d,0,,,,,,rate: no interval: 1 prompts",
        "e,,,,,,,rate: not measured",
    ]


def test_reading_form():
    assert readable(COLUMNS[1], Entry(0.5, 0.4, 0.6, 0.01)) == "50.0 ± 1.0 [40.0, 60.0]"
    assert readable(COLUMNS[1], Entry(0.5, 0.4, 0.6), interval=False) == "50.0"
    assert readable(COLUMNS[1], Entry(None)) == ""


def test_unknown_column_is_a_mistake(table):
    with pytest.raises(KeyError, match="typo"):
        table.add(typo=Entry(1))


def test_empty_table_says_so():
    assert "Nothing to show." in markdown.render(Table("t", "Title", "Caption.", COLUMNS))


PAPER = (
    Column("suite", "suite"),
    Column("dflash", "DFlash", 1, interval=True, group="τ", aside=Column("speedup", "", 2, interval=True)),
    Column("change", "change %", 1, 100, sign=True),
)


@pytest.fixture
def paper_like():
    t = Table("t", "Title", "Caption.", PAPER, notes=["Two machines."])
    beside = Entry(1.5, 1.4, 1.6)
    t.add(suite=Entry("a"), dflash=Entry(30.0, 29.0, 31.0, aside=beside, best=True, cells=("r1/c1",)))
    t.add(suite=Entry("b"), dflash=Entry(20.0, aside=Entry(None, reason="no vanilla")), change=Entry(-0.0001))
    t.add(suite=Entry("paper"), change=Entry(-0.073, source="arXiv:1"))
    t.missing.append(Missing("dcoco on a", "dcoco-bench run"))
    return t


def test_beside_best_group_and_missing_in_markdown(paper_like):
    assert markdown.render(paper_like).splitlines()[4:] == [
        "**Two machines.**",
        "",
        "| suite | τ DFlash | change % |",
        "|---|---:|---:|",
        "| a | **30.0** [29.0, 31.0] (1.50 [1.40, 1.60]) |  |",
        "| b | 20.0 (a) | +0.0 |",
        "| paper |  | −7.3 |",
        "",
        "(a) no vanilla  ",
        "",
        "Not run:",
        "",
        "* dcoco on a: `dcoco-bench run`",
    ]


def test_beside_is_a_column_of_its_own_in_csv(paper_like):
    assert csv_file.render([paper_like]).splitlines() == [
        "suite,dflash,dflash_lo,dflash_hi,dflash_sd,dflash_speedup,dflash_speedup_lo,dflash_speedup_hi,"
        "dflash_speedup_sd,change,notes,cells,source",
        "a,30,29,31,,1.5,1.4,1.6,,,,dflash: r1/c1,",
        "b,20,,,,,,,,-0.0001,dflash_speedup: no vanilla,,",
        "paper,,,,,,,,,-0.073,,,change: arXiv:1",
    ]
