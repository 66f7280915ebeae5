"""The paper's tables, declared: what stands in their rows and columns (`paper.md`, section "Tables and figures")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dcoco_bench.stats.cells import BASELINE
from dcoco_bench.stats.paired import Metric


@dataclass(frozen=True)
class Variant:
    """A column: a method as a cell spells it. `own_weights`: it is trained apart and needs a checkpoint named."""

    spec: str
    title: str
    own_weights: bool = False


SUITES = {
    "gsm8k": "GSM8K",
    "math500": "MATH-500",
    "aime25": "AIME-25",
    "humaneval": "HumanEval",
    "mbpp": "MBPP",
    "livecodebench": "LiveCodeBench",
    "mt-bench": "MT-Bench",
    "arena-hard-v2": "Arena-Hard-v2",
    "alpaca": "Alpaca",
    "speedbench": "SPEED-Bench",
}
STAND_INS = {"speedbench": ("speedbench-public",)}  # suites that take the row of one that cannot be had, under own name

NO_SPEC = Variant(BASELINE, "no-spec")
DFLASH = Variant("dflash", "DFlash")
DCOCO = Variant("dcoco", "DCOCO")
RIVALS = (DFLASH, Variant("dspark", "DSpark"), Variant("domino", "Domino"))
DRAFTERS = (*RIVALS, DCOCO)
ABLATIONS = (
    Variant("dcoco@pair=off", "−pair state", own_weights=True),
    Variant("dcoco@zero=z", "−cand state", own_weights=True),
    Variant("dcoco@frozen=on", "frozen backbone", own_weights=True),
)
PATHS = (
    Variant("dcoco", "greedy"),
    Variant("dcoco@select=geometric", "geometric (λ=0.75)"),
    Variant("dcoco@select=global-sum", "Global-Sum"),
)


@dataclass(frozen=True)
class SuiteTable:
    """Rows: suites and their mean, for each temperature. Columns: methods, each with one number or several."""

    name: str
    number: str
    subject: str
    columns: tuple[Variant, ...]
    metrics: tuple[Metric, ...]
    beside: Literal["", "speedup", "change"] = ""  # in parentheses; a change is relative to `against`
    against: str = ""
    thinking: bool | None = None  # None: in either mode
    greedy_only: bool = False
    open_columns: bool = False  # further methods of the log get columns too
    companion: str = ""  # the table of the same cells that lists what was not run
    needs: tuple[str, ...] = ()  # made only where the log has one of these; empty: any column


TPS: Metric = "per_stream_tps"
_ABLATED = (DCOCO, *ABLATIONS, DFLASH)
_ABLATED_SPECS = tuple(v.spec for v in ABLATIONS)

SUITE_TABLES = (
    SuiteTable(
        "table1", "Table 1", "TPS per stream and speed-up over no-spec, thinking off",
        (NO_SPEC, *DRAFTERS), (TPS,), beside="speedup", thinking=False, open_columns=True,
    ),
    SuiteTable(
        "table3", "Table 3", "path selection over identical scores",
        PATHS, ("tau", TPS), greedy_only=True, needs=tuple(v.spec for v in PATHS[1:]),
    ),
    SuiteTable(
        "table5", "Table 5", "ablations: TPS per stream, change against DCOCO",
        _ABLATED, (TPS,), beside="change", against=DCOCO.spec, needs=_ABLATED_SPECS,
    ),
    SuiteTable(
        "table6", "Table 6", "ablations: accepted length τ, change against DCOCO",
        _ABLATED, ("tau",), beside="change", against=DCOCO.spec, needs=_ABLATED_SPECS,
    ),
    SuiteTable(
        "table7", "Table 7", "accepted length τ, the companion of Table 1",
        DRAFTERS, ("tau",), thinking=False, open_columns=True, companion="Table 1",
    ),
    SuiteTable(
        "table8", "Table 8", "TPS per stream and speed-up over no-spec, thinking on",
        (NO_SPEC, *DRAFTERS), (TPS,), beside="speedup", thinking=True, open_columns=True,
    ),
)  # fmt: skip

COVERAGE_K = (1, 2, 4, 8, 16)
