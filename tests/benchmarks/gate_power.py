"""How often the gate fails a run that is 5 % slower, and one that is not: synthetic runs of known truth.

    python -m tests.benchmarks.gate_power [--prompts 100] [--noise 0.1] [--limit 0.01] [--repeats 2000]

`noise` is the sd of a prompt's paired log speed ratio between two runs. A drop is caught where it exceeds the limit by
more than the noise can explain, so a limit of 1 % is what catches 5 %.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass

from dcoco_bench.gate.checks import Outcome
from dcoco_bench.gate.gate import gate
from dcoco_bench.gate.limits import Limits
from tests.gate.synthetic import run


@dataclass(frozen=True)
class Rates:
    regressions: float
    unclear: float
    passes: float


def rates(drop: float, repeats: int, prompts: int = 100, noise: float = 0.1, limit: float = 0.01) -> Rates:
    """Shares of the outcomes over independent pairs of runs."""
    each = noise / 2**0.5  # both runs are noisy, and independent
    counts: Counter[Outcome] = Counter()
    for i in range(repeats):
        old = run("old", prompts=prompts, noise=each, seed=2 * i)
        new = run("new", prompts=prompts, noise=each, seed=2 * i + 1, slower=drop)
        counts[gate(old, new, Limits(max_tps_drop=limit)).outcome] += 1
    return Rates(*(counts[o] / repeats for o in (Outcome.REGRESSION, Outcome.UNCLEAR, Outcome.PASS)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--noise", type=float, default=0.1)
    parser.add_argument("--limit", type=float, default=0.01)
    parser.add_argument("--repeats", type=int, default=2000)
    given = parser.parse_args()
    for drop in (0.0, 0.02, 0.05, 0.08):
        found = rates(drop, given.repeats, given.prompts, given.noise, given.limit)
        print(
            f"true drop {drop:.0%}: regression {found.regressions:.1%}, cannot tell {found.unclear:.1%}, "
            f"pass {found.passes:.1%}"
        )
