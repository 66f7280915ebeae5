"""How long a run may take: from the speeds of earlier runs in the result folder, else from a stated assumption."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dcoco_bench.backbone import Backbone
from dcoco_bench.cells import Cell
from dcoco_bench.errors import UserError
from dcoco_bench.log_read import list_runs, read_run
from dcoco_bench.plan import Plan

ASSUMED_TPS = 30.0  # one stream of the embedded model on two laptop cores
ASSUMED_GROWTH = 0.6  # aggregate TPS grows as concurrency to this power
GPU_BANDWIDTH = 8e12  # bytes a second, one B200: what a model that is no embedded one is assumed to run on
GPU_SHARE = 0.5  # of it that plain decoding of one stream reaches; drafts are not assumed to help
LOOK_BACK = 5  # runs


@dataclass(frozen=True)
class CellEstimate:
    requests: int
    tokens: int  # at most
    seconds: float
    basis: str


Speed = tuple[float, str]  # aggregate tokens per second, the run it comes from


def estimate(plan: Plan, result_dir: Path) -> dict[str, CellEstimate]:
    """By cell id. Tokens are the most that can come: answers that stop early make it quicker."""
    speeds = _known_speeds(result_dir)
    found = {}
    for cell in plan.cells:
        prompts = plan.prompts(cell.suite).prompts
        requests = sum(len(p.turns) if cell.turns == "all" else 1 for p in prompts)
        speed, basis = _speed(cell, speeds, plan.backbone(cell.backbone))
        tokens = requests * cell.max_tokens
        found[cell.id] = CellEstimate(requests, tokens, tokens / speed, basis)
    return found


def _point(cell: Cell) -> tuple[object, ...]:
    return cell.engine, cell.backbone, cell.method, cell.dtype, cell.engine_args, cell.concurrency


def _speed(cell: Cell, known: dict[tuple[object, ...], Speed], backbone: Backbone) -> Speed:
    if _point(cell) in known:
        return known[_point(cell)]
    read = backbone.active_parameters or backbone.parameters
    if backbone.source == "hub" and read:  # a token reads every weight once, two bytes each
        one = GPU_SHARE * GPU_BANDWIDTH / (2 * read)
        return (
            one * cell.concurrency**ASSUMED_GROWTH,
            f"assumed {one:.0f} tok/s at 1 stream, half a B200's bandwidth",
        )
    return ASSUMED_TPS * cell.concurrency**ASSUMED_GROWTH, f"assumed {ASSUMED_TPS:g} tok/s at 1 stream"


def _known_speeds(result_dir: Path) -> dict[tuple[object, ...], Speed]:
    """The newest run wins."""
    speeds: dict[tuple[object, ...], Speed] = {}
    for path in list_runs(result_dir)[-LOOK_BACK:]:
        try:
            run = read_run(path)
        except UserError:  # a broken run is no source, and not what was asked for
            continue
        for folder in run.cells:
            wall = sum(folder.record.walls) if folder.record else 0.0
            tokens = sum(len(r.output_ids) for r in folder.requests)
            if folder.finished and folder.cell and wall > 0 and tokens:
                speeds[_point(folder.cell)] = tokens / wall, path.name
    return speeds
