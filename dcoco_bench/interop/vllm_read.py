"""`vllm bench serve --save-detailed` → a run of our log. What their file lacks is missing here, never zero.

It has no token ids, so losslessness cannot be judged, and no rounds, so tau comes from totals and has no interval.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

from dcoco_bench.cells import Cell, Sampling
from dcoco_bench.errors import UserError
from dcoco_bench.interop.vllm_keys import COUNTERS, DETAILED
from dcoco_bench.log import TAU_DEFINITION, CellRecord, RequestRecord, SuiteRecord

ENGINE = "vllm-bench"
Result = Mapping[str, Any]


@dataclass(frozen=True)
class Labels:
    """What their file does not say and the user must."""

    method: str
    suite: str
    backbone: str | None = None  # None = `model_id` of the file
    temperature: float = 0.0
    max_tokens: int = 256
    dtype: str = "auto"


def read_results(file: Path) -> list[Result]:
    """One object, or one a line (`--append-result`). Raises UserError with the place and the reason."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({error}); give a result file of vllm bench serve") from None
    decoder, at = json.JSONDecoder(), 0
    found: list[Result] = []
    while at < len(text.rstrip()):
        at = len(text) - len(text[at:].lstrip())
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise UserError(f"{file}, line {error.lineno + text[:at].count(chr(10))}: not JSON ({error.msg})") from None
        found.append(_checked(value, f"{file}, result {len(found) + 1}"))
    if not found:
        raise UserError(f"{file} is empty; give a result file of vllm bench serve")
    return found


def _checked(value: Any, where: str) -> Result:
    if not isinstance(value, dict) or "output_throughput" not in value:
        raise UserError(f"{where}: not a result of vllm bench serve (no output_throughput)")
    if lacking := [key for key in DETAILED if key not in value]:
        raise UserError(f"{where}: has no {', '.join(lacking)}; run vllm bench serve with --save-detailed")
    sizes = {key: len(value[key]) for key in DETAILED if isinstance(value[key], list)}
    if len(sizes) < len(DETAILED) or len(set(sizes.values())) != 1:
        raise UserError(f"{where}: {', '.join(DETAILED)} are not lists of one length ({sizes})")
    return value


def convert(result: Result, labels: Labels, where: str) -> tuple[CellRecord, list[RequestRecord]]:
    """One result as a finished cell with its requests. Raises UserError on values that cannot be theirs."""
    level = result.get("max_concurrency")
    if not isinstance(level, int) or level < 1:
        raise UserError(f"{where}: max_concurrency is {level!r}; run vllm bench serve with --max-concurrency N")
    try:
        requests = [_request(result, i) for i in range(len(result["output_lens"]))]
        duration = float(result["duration"])
        counters = {ours: float(result[theirs]) for theirs, ours in COUNTERS.items() if theirs in result}
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise UserError(f"{where}: {type(error).__name__}: {error}; not what vllm bench serve writes") from None
    cell = Cell(
        engine=ENGINE,
        backbone=labels.backbone or str(result.get("model_id", "unknown")),
        method=labels.method,
        suite=labels.suite,
        concurrency=level,
        sampling=Sampling(temperature=labels.temperature),
        num_prompts=len(requests),
        max_tokens=labels.max_tokens,
        dtype=labels.dtype,
    )
    theirs = {key: result[key] for key in ("request_rate", "label") if key in result}
    lengths = json.dumps(result["input_lens"]).encode()
    suite = SuiteRecord(
        name=labels.suite,
        version=1,
        origin="import",
        prompt_hash=hashlib.sha256(lengths).hexdigest()[:16],  # of the prompts' lengths: all that the file has
        category="imported",
        prompts=len(requests),
    )
    record = CellRecord(
        id=cell.id,
        cell=cell,
        status="ok",
        suite=suite,
        walls=[duration],
        counters=counters,
        effective={"imported": "vllm bench serve", "backend": result.get("backend")},
        warmup={},
        definitions={"tau": TAU_DEFINITION},
        provenance={"started": _date(result), "their": theirs},
    )
    return record, requests


def _request(result: Result, i: int) -> RequestRecord:
    ttft, gaps = float(result["ttfts"][i]), [float(gap) for gap in result["itls"][i]]
    begins = result.get("start_times") or []
    start = float(begins[i]) - min(map(float, begins)) if begins else 0.0
    times = list(accumulate([ttft, *gaps]))
    latencies = result.get("latencies") or []
    e2e = float(latencies[i]) if latencies else times[-1]
    error = (result.get("errors") or [""] * (i + 1))[i]
    tokens = int(result["output_lens"][i])
    failed = bool(error) or tokens < 1
    return RequestRecord(
        index=i,
        prompt_id=f"request {i}",
        prompt_sha="unknown",
        prompt_tokens=int(result["input_lens"][i]),
        start=start,
        first_token=start + ttft if not failed else None,
        end=start + e2e,
        output_ids=[],
        output_tokens=tokens,
        finish_reason="error" if failed else "length",
        error=(str(error).strip().splitlines() or ["no token came"])[-1] if failed else None,
    )


def _date(result: Result) -> str | None:
    try:
        return datetime.strptime(str(result["date"]), "%Y%m%d-%H%M%S").isoformat()
    except (KeyError, ValueError):
        return None
