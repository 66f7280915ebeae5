"""Statistics of one point (a cell at one or several seeds) and paired ratios of two points, as `Draws` over prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.intervals import Draws, Estimate, clusters, constant, estimate, mean_same_prompts, ratio_of_sums
from dcoco_bench.stats.requests import Bools, Floats, Ints, RequestTable
from dcoco_bench.stats.totals import REASON, from_totals

Metric = Literal[
    "per_stream_tps", "decode_tps", "tau", "tau_raw", "tau_request", "tau_request_raw", "acceptance_rate", "round_time"
]
TAUS = ("tau", "tau_raw", "tau_request", "tau_request_raw")


class Result(NamedTuple):
    """Draws for further arithmetic (None when undefined), and the estimate to show."""

    draws: Draws | None
    estimate: Estimate


def measure(logs: Sequence[CellLog], metric: Metric) -> Result:
    """A statistic of one point: the mean over its seeds, with an interval over prompts."""
    tables = [log.table for log in logs]
    if not logs or not any(len(t) for t in tables):
        return Result(None, Estimate(None, reason="no successful request"))
    if metric in TAUS and logs[0].acceptance.by_construction:
        return Result(_draws(logs, tables, metric), Estimate(1.0, reason="1 by construction"))
    if metric in (*TAUS, "acceptance_rate", "round_time") and not logs[0].acceptance.by_construction:
        if not any(t.known.any() for t in tables):
            totals = [from_totals(metric, t, log.record.counters) for log, t in zip(logs, tables, strict=True)]
            if all(value is not None for value in totals):
                mean = float(np.mean([value for value in totals if value is not None]))
                return Result(None, Estimate(mean, reason=REASON, seeds=len(totals)))
            return Result(None, Estimate(None, reason="the engine gave no rounds"))
        if not any(log.acceptance.rounds for log in logs):
            return Result(None, Estimate(None, reason="no round with a draft token"))
    if metric == "acceptance_rate" and logs[0].acceptance.by_construction:
        return Result(None, Estimate(None, reason="nothing is drafted"))
    return _summary([_draws([log], [table], metric) for log, table in zip(logs, tables, strict=True)])


def paired_ratio(ours: Sequence[CellLog], theirs: Sequence[CellLog], metric: Metric) -> Result:
    """Ratio of a statistic of two points over the requests that succeeded on both sides, seed by seed.

    Refused, with the reason, when the two sides did not decode the same prompts.
    """
    partner = {log.cell.seed: log for log in theirs}
    pairs = [(log, partner[log.cell.seed]) for log in ours if log.cell.seed in partner]
    if not pairs:
        return Result(None, Estimate(None, reason="no common seed" if ours and theirs else "no cell to compare with"))
    ratios = []
    for a, b in pairs:
        if a.record.suite.prompt_hash != b.record.suite.prompt_hash:
            reason = f"other prompts: {a.record.suite.prompt_hash} against {b.record.suite.prompt_hash}"
            return Result(None, Estimate(None, reason=reason))
        left, right = common(a.table, b.table)
        if not left.any():
            return Result(None, Estimate(None, reason="no request succeeded on both sides"))
        tables = a.table.take(left), b.table.take(right)
        for log, table in zip((a, b), tables, strict=True):
            tau = metric in (*TAUS, "round_time") and not log.acceptance.by_construction
            if tau and not table.rounds.drafting.any():
                return Result(None, Estimate(None, reason="no rounds to compare"))
        ratios.append(_draws([a], [tables[0]], metric) / _draws([b], [tables[1]], metric))
    return _summary(ratios)


def common(a: RequestTable, b: RequestTable) -> tuple[Bools, Bools]:
    """Masks of the timed requests (prompt, turn) that both tables hold."""
    turns = 1 + max((int(t.turn.max()) for t in (a, b) if len(t)), default=0)
    keys: list[Ints] = [t.prompt * turns + t.turn for t in (a, b)]
    timed = [np.isfinite(t.e2e) for t in (a, b)]
    shared = np.intersect1d(keys[0][timed[0]], keys[1][timed[1]])
    left, right = (np.isin(key, shared) & ok for key, ok in zip(keys, timed, strict=True))
    return left, right


def _summary(parts: list[Draws]) -> Result:
    if len({tuple(len(b) for b in p.left_out) for p in parts}) > 1:
        # Seeds that lost different prompts cannot share resamples; say so instead of guessing.
        value = float(np.mean([p.value for p in parts]))
        sd = float(np.std([p.value for p in parts], ddof=1))
        reason = "no interval: the seeds answered different prompts"
        return Result(None, Estimate(value, n=parts[0].n, reason=reason, seeds=len(parts), sd=sd))
    draws = parts[0] if len(parts) == 1 else mean_same_prompts(parts)
    return Result(draws, estimate(draws, [p.value for p in parts]))


def _draws(logs: Sequence[CellLog], tables: Sequence[RequestTable], metric: Metric) -> Draws:
    """Draws of one cell's statistic; the first log and table count."""
    log, table = logs[0], tables[0]
    if metric == "round_time":
        return _draws(logs, tables, "tau") / _draws(logs, tables, "per_stream_tps")
    cluster, count = clusters(table.prompt)
    label = f"{log.cell.suite} {log.record.suite.prompt_hash}"

    def per_prompt(values: Floats) -> Floats:
        return np.bincount(cluster, weights=values, minlength=count).astype(np.float64)

    if metric in TAUS and log.acceptance.by_construction:
        return constant(1.0, ratio_of_sums(per_prompt(np.ones(len(table))), per_prompt(np.ones(len(table))), label))
    top, bottom = _terms(table, metric)
    return ratio_of_sums(per_prompt(top), per_prompt(bottom), label)


def _terms(table: RequestTable, metric: Metric) -> tuple[Floats, Floats]:
    """Numerator and denominator of a metric, per request. Requests that lack what it needs add nothing to either."""
    n, e2e, ttft, rounds = table.tokens.astype(np.float64), table.e2e, table.ttft, table.rounds
    if metric == "per_stream_tps":
        timed = np.isfinite(e2e)
        return np.where(timed, n, 0.0), np.where(timed, e2e, 0.0)
    if metric == "decode_tps":
        timed = np.isfinite(e2e) & np.isfinite(ttft)
        return np.where(timed, n - 1, 0.0), np.where(timed, e2e - ttft, 0.0)
    accepted, count = table.per_request(rounds.accepted), table.per_request(np.ones_like(rounds.drafted))
    if metric == "acceptance_rate":
        return accepted, table.per_request(rounds.drafted)
    tokens = accepted + count if metric.endswith("_raw") else table.per_request(rounds.delivered)
    if metric in ("tau", "tau_raw"):
        return tokens, count
    some = count > 0  # per request: mean of each request's own tau
    own = np.divide(tokens, count, out=np.zeros_like(tokens), where=some)
    return own, some.astype(np.float64)
