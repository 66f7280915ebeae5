"""Slots that were not run, gathered into as few commands as fill them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from dcoco_bench.cells import Cell, Sampling
from dcoco_bench.report.paper.layout import Variant
from dcoco_bench.report.paper.modes import Address, Mode, sampling_text
from dcoco_bench.report.table import Missing
from dcoco_bench.stats.cells import BASELINE


def missing(mode: Mode, wanted: Iterable[Address], variants: Sequence[Variant], baseline: bool) -> list[Missing]:
    """What of `wanted` has no point. One command for all suites and levels that lack the same methods.

    `baseline`: the numbers need vanilla in the same run. Cells that began and did not finish are no part of this:
    their slot holds a point, which says how to go on.
    """
    lacking: dict[tuple[Sampling, int, str], list[str]] = {}
    for at in wanted:
        if at not in mode.measured:
            lacking.setdefault(at[:3], []).append(at.method)
    suites: dict[tuple[Sampling, int, tuple[str, ...]], list[str]] = {}
    for (sampling, level, suite), methods in lacking.items():
        suites.setdefault((sampling, level, tuple(methods)), []).append(suite)
    levels: dict[tuple[Sampling, tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for (sampling, level, specs), names in suites.items():
        levels.setdefault((sampling, specs, tuple(names)), []).append(level)
    found = []
    for (sampling, specs, names), counts in levels.items():  # type: ignore[assignment]
        run = (BASELINE, *specs) if baseline and BASELINE not in specs else specs
        words = command(mode, sampling, counts, names, run)
        for variant in variants:
            if variant.own_weights and variant.spec in specs:
                words += ["--checkpoint", f"{variant.spec}=FOLDER"]
        where = f"{', '.join(specs)} on {', '.join(names)} at T={sampling_text(sampling)}"
        found.append(Missing(f"{where}, {streams(*counts)}", shlex.join(words)))
    return found


def streams(*levels: int) -> str:
    return "1 stream" if levels == (1,) else f"{', '.join(map(str, levels))} streams"


def command(
    mode: Mode, sampling: Sampling, levels: Sequence[int], suites: Sequence[str], methods: Sequence[str]
) -> list[str]:
    """`dcoco-bench run` of these cells, with every setting of the mode said."""
    c = _template(mode, sampling)
    words = ["dcoco-bench", "run", "--engine", c.engine, "--backbone", c.backbone]
    words += ["--suite", ",".join(suites), "--method", ",".join(methods), "--conc", ",".join(map(str, levels))]
    words += ["--temperature", f"{sampling.temperature:g}"]
    words += ["--top-p", f"{sampling.top_p:g}"] if sampling.top_p < 1 else []
    words += ["--top-k", str(sampling.top_k)] if sampling.top_k else []
    words += ["--seeds", ",".join(map(str, seeds))] if (seeds := _seeds(mode, sampling)) else []
    words += ["--num-prompts", str(c.num_prompts or -1), "--max-tokens", str(c.max_tokens), "--dtype", c.dtype]
    words += ["--thinking", "on"] if c.thinking else []
    words += ["--turns", c.turns] if c.turns != "all" else []
    words += ["--record-candidates"] if c.record_candidates else []
    for argument in c.engine_args:
        words += ["--engine-arg", argument]
    return words


def _template(mode: Mode, sampling: Sampling) -> Cell:
    """A cell of the mode, of the same sampling where there is one."""
    points = [(at, p[-1]) for at, p in mode.measured.items()]
    return next((p.cell for at, p in points if at.sampling == sampling), mode.cell)


def _seeds(mode: Mode, sampling: Sampling) -> list[int]:
    """The seeds that other cells at T > 0 had; three, as in the paper, where there were none."""
    if sampling.greedy:
        return []
    known = {log.cell.seed for points in mode.measured.values() for p in points[-1:] for log in p.logs}
    hot = [at for at in mode.measured if not at.sampling.greedy]
    return sorted(known) if hot and known else [0, 1, 2]
