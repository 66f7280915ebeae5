"""The main table: one row a point, throughput and accepted length side by side, then the cost of a round."""

from __future__ import annotations

from dcoco_bench.report.flags import flags
from dcoco_bench.report.points import Point, Setting
from dcoco_bench.report.table import Column, Entry, Table
from dcoco_bench.stats.acceptance import ACCEPTANCE_RATE, TAU, TAU_RAW, TAU_REQUEST, TAU_REQUEST_RAW
from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.intervals import Estimate
from dcoco_bench.stats.paired import Metric, Result, measure, paired_ratio
from dcoco_bench.stats.throughput import Spread, phase_split

CAPTION = (
    "TPS per stream = Σ output tokens / Σ request latency (`per_stream_tps`, prefill included). "
    "Aggregate TPS = Σ output tokens / wall time. "
    "Speed-up = TPS per stream / vanilla's, same run, engine, concurrency and settings, over the requests that "
    f"succeeded on both sides. τ = accepted length `{TAU}`: tokens delivered per verification round, the target's own "
    f"token included; vanilla is 1 by construction. Raw τ also counts drafts accepted past the end of "
    f"the output. Acceptance = `{ACCEPTANCE_RATE}`. Round = τ / TPS per stream. "
    "Draft, head, verify, other = engine time per step, prefill excluded; a step serves all streams once. "
    "In brackets: 95 % BCa bootstrap interval over prompts, paired for the speed-up; several seeds: mean ± standard "
    "deviation. Aggregate TPS and phases have one wall clock a cell and so no interval."
)
PHASE_COLUMNS = ("draft", "head", "verify", "other")

IDENTITY = ("run", "backbone", "engine", "temperature", "top_p", "top_k", "thinking", "turns", "max_tokens", "dtype")
SHOWN = (
    Column("suite", "suite"),
    Column("concurrency", "streams"),
    Column("method", "method"),
    Column("per_stream_tps", "TPS per stream", 1, interval=True),
    Column("aggregate_tps", "aggregate TPS", 1, interval=True),
    Column("speedup", "speed-up", 2, interval=True),
    Column("tau", "τ", 2, interval=True),
    Column("acceptance_rate", "acceptance %", 1, 100, interval=True),
    Column("round_time_s", "round ms", 1, 1000, interval=True),
    *(Column(f"{p}_s", f"{p} ms", 1, 1000) for p in PHASE_COLUMNS),
    Column("prompts", "n"),
    Column("failed", "failed"),
    Column("flags", "flags"),
)
DETAIL = (
    Column("tau_raw", "τ raw", 3, interval=True),
    Column("tau_request", "τ per request", 3, interval=True),
    Column("tau_request_raw", "τ per request, raw", 3, interval=True),
    Column("decode_tps", "decode TPS", 1, interval=True),
    *(Column(f"{what}_{part}_s", "") for what in ("ttft", "tpot", "e2e") for part in ("mean", "p50", "p99")),
    *(Column(key, "") for key in ("wall_s", "tokens", "requests", "rounds", "undrafted_share", "drafted", "accepted")),
    *(Column(key, "") for key in ("seeds", "cells", "origin", "suite_version", "prompt_hash", "hardware", "simulated")),
    *(Column(key, "") for key in ("tau_definition", "tau_raw_definition", "tau_request_definition")),
    *(Column(key, "") for key in ("tau_request_raw_definition", "tps_definition", "engine_args")),
)


def _hidden(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(Column(c.key, c.title, c.digits, c.scale, c.interval, shown=False) for c in columns)


COLUMNS = (*_hidden(tuple(Column(key, "") for key in IDENTITY)), *SHOWN, *_hidden(DETAIL))


def results_table(setting: Setting) -> Table:
    """One row for every point of the setting, the failed and unfinished ones included."""
    table = Table("results", setting.title, CAPTION, COLUMNS)
    for point in setting.points:
        table.add(**identity(point), **(_numbers(point) if point.shown else _blank(point)), **_about(point))
    return table


def identity(point: Point) -> dict[str, Entry]:
    cell = point.cell
    return {
        "run": Entry(point.run),
        "backbone": Entry(cell.backbone),
        "engine": Entry(cell.engine),
        "temperature": Entry(cell.sampling.temperature),
        "top_p": Entry(cell.sampling.top_p),
        "top_k": Entry(cell.sampling.top_k),
        "thinking": Entry("on" if cell.thinking else "off"),
        "turns": Entry(cell.turns),
        "max_tokens": Entry(cell.max_tokens),
        "dtype": Entry(cell.dtype),
        "suite": Entry(point.suite),
        "concurrency": Entry(cell.concurrency),
        "method": Entry(cell.method),
    }


def measured(point: Point, metric: Metric) -> Result:
    """A statistic of the point over its shown cells, computed once."""
    return point.once(metric, lambda: measure(point.shown, metric))


def speedup(point: Point) -> Result:
    """Per-stream TPS against vanilla's, paired over prompts. Blank with the reason where there is no fair baseline."""
    return point.once("speedup", lambda: _speedup(point))


def _speedup(point: Point) -> Result:
    if point.is_reference:
        return Result(None, Estimate(1.0, reason="the baseline") if point.shown else Estimate(None, reason=point.blank))
    if not point.shown:
        return Result(None, Estimate(None, reason=point.blank))
    if point.no_baseline:
        return Result(None, Estimate(None, reason=point.no_baseline))
    return paired_ratio(point.shown, point.baseline, "per_stream_tps")


def tau(point: Point, metric: Metric = "tau") -> Result:
    """A tau of the point, blank where the log's own definition is another."""
    if not point.shown:
        return Result(None, Estimate(None, reason=point.blank))
    if point.definition_clash:
        return Result(None, Estimate(None, reason=point.definition_clash))
    return measured(point, metric)


def _blank(point: Point) -> dict[str, Entry]:
    return dict.fromkeys(("per_stream_tps", "aggregate_tps", "speedup", "tau"), Entry(None, reason=point.blank))


def _numbers(point: Point) -> dict[str, Entry]:
    logs = point.shown
    taus: tuple[Metric, ...] = ("tau", "tau_raw", "tau_request", "tau_request_raw")
    entries: dict[str, Entry] = {metric: Entry.of(tau(point, metric).estimate) for metric in taus}
    rates: tuple[Metric, ...] = ("per_stream_tps", "decode_tps", "acceptance_rate")
    entries |= {metric: Entry.of(measured(point, metric).estimate) for metric in rates}
    entries["round_time_s"] = Entry.of(tau(point, "round_time").estimate)
    entries["speedup"] = Entry.of(speedup(point).estimate)
    entries["aggregate_tps"] = _mean([log.throughput.aggregate_tps for log in logs], "wall time is missing")
    entries |= _phases(logs)
    for what in ("ttft", "tpot", "e2e"):
        spreads: list[Spread | None] = [getattr(log.throughput, what) for log in logs]
        for part in ("mean", "p50", "p99"):
            entries[f"{what}_{part}_s"] = _mean([getattr(s, part) if s else None for s in spreads], "times are missing")
    a = [log.acceptance for log in logs]
    entries["undrafted_share"] = _mean([x.undrafted_share for x in a], "nothing is drafted")
    if not a[0].by_construction:
        entries |= {key: Entry(sum(getattr(x, key) for x in a)) for key in ("rounds", "drafted", "accepted")}
    entries["wall_s"] = _mean([log.throughput.wall for log in logs], "wall time is missing")
    entries["tokens"] = Entry(sum(log.throughput.tokens for log in logs))
    entries["requests"] = Entry(sum(log.throughput.requests for log in logs))
    entries["prompts"] = Entry(max(len(set(log.table.prompt.tolist())) for log in logs))
    return entries


def _about(point: Point) -> dict[str, Entry]:
    """Where the row comes from; there also for a point that failed."""
    if not point.logs:
        return {"flags": Entry("not finished")}
    suite = point.logs[0].record.suite
    return {
        "failed": Entry(sum(log.table.failed for log in point.logs)),
        "flags": Entry("; ".join(flags(point))),
        "seeds": Entry(" ".join(str(log.cell.seed) for log in point.logs)),
        "cells": Entry(" ".join(log.record.id for log in point.logs)),
        "origin": Entry(suite.origin),
        "suite_version": Entry(suite.version),
        "prompt_hash": Entry(suite.prompt_hash),
        "hardware": Entry(point.hardware),
        "simulated": Entry("yes" if point.simulated else "no"),
        "tau_definition": Entry(TAU),
        "tau_raw_definition": Entry(TAU_RAW),
        "tau_request_definition": Entry(TAU_REQUEST),
        "tau_request_raw_definition": Entry(TAU_REQUEST_RAW),
        "tps_definition": Entry("per_stream_tps"),
        "engine_args": Entry(" ".join(point.cell.engine_args)),
    }


def _phases(logs: list[CellLog]) -> dict[str, Entry]:
    """Seconds per engine step. Vanilla has no draft and no head: a phase that took no time stays blank there."""
    splits = [phase_split(log.record.counters) for log in logs]
    drafts = not logs[0].acceptance.by_construction
    entries = {}
    for phase in PHASE_COLUMNS:
        values = [split.get(phase) for split in splits]
        if phase in ("draft", "head") and not drafts and not any(values):
            continue
        entries[f"{phase}_s"] = _mean(values, "the engine does not time its phases")
    return entries


def _mean(values: list[float | None], missing: str) -> Entry:
    known = [v for v in values if v is not None]
    if not known or len(known) < len(values):
        return Entry(None, reason=missing)
    return Entry(sum(known) / len(known))
