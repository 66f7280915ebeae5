"""Claim by claim: what the paper says, what these logs say, and whether they agree. A verdict needs an interval."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from enum import StrEnum
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dcoco_bench.report.points import Setting
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.report.versus import mean_ratio

CAPTION = (
    "The paper's claims as ratios of two methods (its values: Qwen3-8B on a B200, greedy unless said), and the same "
    "ratio here, mean over suites, with its 95 % interval. Agrees or differs: all of the interval lies on one side of "
    "1, or inside or outside a range that the paper gives. The size of an effect is not judged: these are other models "
    "and machines."
)
COLUMNS = (
    Column("claim", "claim"),
    Column("metric", "ratio of"),
    Column("pair", "methods"),
    Column("paper", "paper"),
    Column("streams", "streams"),
    Column("measured", "measured here", 3, interval=True, always=True),
    Column("verdict", "verdict"),
)


MANY_STREAMS = 16  # the paper's serving study has 4 to 32; its claims about high concurrency are not judged below this


class Verdict(StrEnum):
    AGREES = "agrees"
    DIFFERS = "differs"
    UNCLEAR = "cannot tell"
    ABSENT = "not measured here"


class Claim(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    metric: Literal["tau", "tps", "round"]
    method: str
    against: str
    side: Literal["above", "below"]
    load: Literal["fewest", "most"] = "fewest"
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def said(self) -> str:
        if self.value is not None:
            return f"{self.value:g}"
        return f"{self.low:g} to {self.high:g}" if self.low is not None else f"{self.side} 1"


def claims() -> list[Claim]:
    text = (files(__package__) / "claims.toml").read_text(encoding="utf-8")
    return [Claim(**entry) for entry in tomllib.loads(text)["claims"]]


def judge(claim: Claim, measured: Entry) -> Verdict:
    if measured.value is None:
        return Verdict.ABSENT
    if measured.lo is None or measured.hi is None:
        return Verdict.UNCLEAR
    if claim.low is not None and claim.high is not None:
        if measured.hi < claim.low or measured.lo > claim.high:
            return Verdict.DIFFERS
        return Verdict.AGREES if claim.low <= measured.lo and measured.hi <= claim.high else Verdict.UNCLEAR
    if measured.lo <= 1 <= measured.hi:
        return Verdict.UNCLEAR
    above = measured.lo > 1
    return Verdict.AGREES if above is (claim.side == "above") else Verdict.DIFFERS


def claims_tables(groups: Sequence[Setting]) -> list[Table]:
    """One table for every setting in which something can be said."""
    made = []
    for setting in groups:
        table = Table("claims", f"Claim by claim: {setting.title}", CAPTION, COLUMNS)
        levels = sorted({p.cell.concurrency for p in setting.points})
        for claim in claims():
            level = levels[0] if claim.load == "fewest" else levels[-1]
            if claim.load == "most" and level < MANY_STREAMS:
                found = Entry(None, reason=f"the most streams measured are {level}, too few for this claim")
            else:
                found = mean_ratio(setting, claim.method, level, claim.metric, claim.against)
            verdict = judge(claim, found)
            table.add(
                claim=Entry(claim.text),
                metric=Entry(claim.metric),
                pair=Entry(f"{claim.method} / {claim.against}"),
                paper=Entry(claim.said, source="arXiv:2610.12570"),
                streams=Entry(level),
                measured=found,
                verdict=Entry(str(verdict)),
            )
        if any(row["verdict"].value != str(Verdict.ABSENT) for row in table.rows):
            made.append(table)
    return made
