"""Two engines held against each other, from the logs of two runs over the same prompts at T = 0 in float32:

    dcoco-bench run --engine torch --dtype float32 --record-candidates ... --run-name torch
    dcoco-bench run --engine vllm  --dtype float32 ... --run-name vllm
    python -m tests.benchmarks.check_parity results/torch results/vllm

The aim (design: one selection, two engines): equal text and rounds on 95 % of prompts or more, tau within 1 %.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dcoco_bench.log_read import Run, read_run
from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.parity import Parity, parity


def greedy_cells(run: Run) -> dict[tuple[str, str, int], CellLog]:
    logs = [CellLog(c.record, c.requests) for c in run.cells if c.record is not None and c.record.status == "ok"]
    return {(log.cell.suite, log.cell.method, log.cell.concurrency): log for log in logs if log.cell.sampling.greedy}


def show(found: dict[tuple[str, str, int], Parity], console: Console) -> None:
    table = Table("suite", "method", "streams", "prompts", "text", "text and rounds", "tau", "ratio", "ties (margin)")
    for (suite, method, streams), p in found.items():
        first, second = p.tau
        taus = f"{first:.3f} / {second:.3f}" if first and second else "-"
        ratio = f"{p.tau_ratio:.4f}" if p.tau_ratio else "-"
        ties = ", ".join(f"{d.prompt_id}@{d.index}: {d.margin or float('nan'):.4f}" for d in p.divergences)
        rates = [f"{r.value:.1%}" if r.value is not None else "-" for r in (p.text, p.rounds)]
        table.add_row(suite, method, str(streams), str(p.prompts), *rates, taus, ratio, ties or "none")
    console.print(table)


def main(first: str, second: str) -> int:
    ours, theirs = greedy_cells(read_run(Path(first))), greedy_cells(read_run(Path(second)))
    found = {key: parity(ours[key], theirs[key]) for key in ours if key in theirs}
    show(found, Console())
    drafting = [p for p in found.values() if p.tau_ratio]
    near = all(
        (p.rounds.value or 0) >= 0.95 and p.tau_ratio is not None and abs(p.tau_ratio - 1) <= 0.01 for p in drafting
    )
    print("parity" if drafting and near else "no parity")
    return 0 if drafting and near else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
