"""The HTML report: one page with nothing to fetch, every number with its origin, and nothing of a log is executed."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from dcoco_bench.cells import Matrix
from dcoco_bench.report.command import report
from dcoco_bench.report.html.page import cell, page
from dcoco_bench.report.paper.claims import Claim, Verdict, claims, judge
from dcoco_bench.report.table import Column, Entry, Table

EVIL = '<script>alert("x")</script>'


class Seen(HTMLParser):
    """Tags with their attributes, and what scripts hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def made(write_test_run, tmp_path: Path) -> str:
    matrix = Matrix(methods=("vanilla", "dflash", "dcoco"), suites=("gsm8k", "mbpp"), concurrency=(1, 4))
    report([write_test_run(matrix)], tmp_path / "out")
    return (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_nothing_is_fetched(made: str) -> None:
    seen = Seen(made)
    for _, attributes in seen.tags:
        for name in ("src", "href", "xlink:href", "data"):
            link = attributes.get(name)
            assert link is None or link.startswith("#"), link
    assert "@import" not in made
    policy = [a["content"] for a in seen.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy
    assert policy[0] is not None
    assert policy[0].startswith("default-src 'none'")


def test_tables_figures_summary_and_claims_are_there(made: str) -> None:
    seen = Seen(made)
    assert len(seen.all("table")) > 5
    assert len(seen.all("figure")) >= 5
    assert len(seen.all("input")) == len(seen.all("table"))
    assert "is fastest" in made
    assert "Claim by claim" in made
    assert "paper" in made


def test_every_number_sorts_as_a_number(made: str) -> None:
    numbers = [a for a in Seen(made).all("td") if "data-sort" in a]
    assert len(numbers) > 50
    for attributes in numbers:
        float(str(attributes["data-sort"]))


def test_what_a_log_says_is_text() -> None:
    table = Table("t", f"title {EVIL}", EVIL, (Column("a", f"head {EVIL}"),), notes=[EVIL])
    table.add(a=Entry(EVIL, reason=f'" onclick="{EVIL}'))
    seen = Seen(page(EVIL, [EVIL], [(EVIL, [table])], [], [EVIL]))
    assert len(seen.all("script")) == 1  # our own
    assert not any("alert" in script for script in seen.scripts)
    assert all("onclick" not in attributes for _, attributes in seen.tags)


def test_a_missing_number_says_why() -> None:
    found = cell(Column("a", "a", 2), Entry(None, reason="no vanilla cell"))
    assert (found.text, found.tip, found.sort) == ("", "no vanilla cell", "")


def test_a_range_is_met_missed_or_neither() -> None:
    said = {"text": "t", "metric": "round", "method": "a", "against": "b", "side": "above", "low": 1.03, "high": 1.04}
    claim = Claim.model_validate(said)
    assert judge(claim, Entry(1.035, 1.031, 1.039)) is Verdict.AGREES
    assert judge(claim, Entry(1.08, 1.06, 1.1)) is Verdict.DIFFERS
    assert judge(claim, Entry(1.05, 1.02, 1.07)) is Verdict.UNCLEAR


def test_every_claim_can_be_judged() -> None:
    found = claims()
    assert len(found) > 10
    assert {c.metric for c in found} == {"tau", "tps", "round"}


@pytest.mark.parametrize(
    ("measured", "side", "verdict"),
    [
        (Entry(1.2, 1.1, 1.3), "above", Verdict.AGREES),
        (Entry(1.2, 1.1, 1.3), "below", Verdict.DIFFERS),
        (Entry(0.9, 0.8, 0.95), "below", Verdict.AGREES),
        (Entry(1.02, 0.98, 1.06), "above", Verdict.UNCLEAR),
        (Entry(1.2, reason="no interval"), "above", Verdict.UNCLEAR),
        (Entry(None), "above", Verdict.ABSENT),
    ],
)
def test_a_verdict_needs_an_interval_on_one_side(measured: Entry, side: str, verdict: Verdict) -> None:
    claim = Claim.model_validate({"text": "t", "metric": "tau", "method": "a", "against": "b", "side": side})
    assert judge(claim, measured) is verdict
