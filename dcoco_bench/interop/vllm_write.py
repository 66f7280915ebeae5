"""A cell of our log in the keys of `vllm bench serve --save-detailed`, for tools that read those."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dcoco_bench.log import RequestRecord
from dcoco_bench.stats.cells import CellLog
from dcoco_bench.stats.requests import succeeded


def as_vllm_json(log: CellLog) -> dict[str, Any]:
    """Their names and units: statistics in milliseconds, the acceptance rate in percent, positions as fractions.

    Keys whose numbers the log lacks are left out, as they leave out the spec keys of a run without drafts.
    """
    cell, t, a = log.cell, log.throughput, log.acceptance
    good = succeeded(log.requests)
    found: dict[str, Any] = {
        "date": str(log.record.provenance.get("started", "")).replace("-", "").replace(":", "").replace("T", "-")[:15],
        "endpoint_type": "dcoco-bench",
        "backend": f"dcoco-bench {cell.engine}",
        "label": cell.label,
        "model_id": cell.backbone,
        "tokenizer_id": cell.backbone,
        "num_prompts": log.record.suite.prompts,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": cell.concurrency,
        "completed": len(good),
        "failed": t.failed,
        "total_input_tokens": sum(r.prompt_tokens for r in good),
        "total_output_tokens": t.tokens,
    }
    if t.wall:
        found |= {
            "duration": t.wall,
            "request_throughput": len(good) / t.wall,
            "output_throughput": t.tokens / t.wall,
            "total_token_throughput": (t.tokens + found["total_input_tokens"]) / t.wall,
        }
    table = log.table
    decode = table.e2e - table.ttft
    several = np.isfinite(decode) & (table.tokens > 1)
    found |= _statistics("ttft", table.ttft) | _statistics("e2el", table.e2e)
    found |= _statistics("tpot", decode[several] / (table.tokens[several] - 1))
    if a.rounds:
        found |= {
            "spec_decode_acceptance_rate": 100 * (a.acceptance_rate or 0.0),
            "spec_decode_acceptance_length": a.tau_raw,
            "spec_decode_num_drafts": a.rounds,
            "spec_decode_draft_tokens": a.drafted,
            "spec_decode_accepted_tokens": a.accepted,
            "spec_decode_per_position_acceptance_rates": list(a.marginal),
        }
    return found | _detailed(log.requests)


def _statistics(name: str, seconds: Any) -> dict[str, float]:
    known = 1000 * seconds[np.isfinite(seconds)]
    if not len(known):
        return {}
    values = {"mean": known.mean(), "median": np.median(known), "std": known.std(), "p99": np.percentile(known, 99)}
    return {f"{kind}_{name}_ms": float(value) for kind, value in values.items()}


def _detailed(requests: Sequence[RequestRecord]) -> dict[str, Any]:
    """Per request, failed ones included, as theirs. An answer without chunk times has one gap."""
    return {
        "input_lens": [r.prompt_tokens for r in requests],
        "output_lens": [r.tokens for r in requests],
        "ttfts": [r.first_token - r.start if r.first_token is not None else 0.0 for r in requests],
        "itls": [_gaps(r) for r in requests],
        "start_times": [r.start for r in requests],
        "errors": [r.error or "" for r in requests],
    }


def _gaps(request: RequestRecord) -> list[float]:
    if request.chunks:
        times = [at for _, at in request.chunks]
        return [b - a for a, b in pairwise(times)]
    if request.first_token is None:
        return []
    return [request.end - request.first_token]  # one gap: when the tokens between came is not known
