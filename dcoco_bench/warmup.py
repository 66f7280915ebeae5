"""Warm-up: the same load, the same limiter, other prompts. What it measures is thrown away, that it ran is recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dcoco_bench.dialogue import PlayedPrompt
from dcoco_bench.engines.base import Engine, engine_now
from dcoco_bench.load import Load, Settings
from dcoco_bench.log import RequestRecord
from dcoco_bench.prompts import PromptSet, prompt_sha, warmup_prompts

MINIMUM = 2  # requests, whatever the concurrency (C26)
OUTPUT_TOKENS = 24  # a few rounds
FIRST_INDEX = 1 << 16  # keeps the ids of warm-up requests clear of the measured ones


def warm_up(engine: Engine, settings: Settings, tokenizer: Any, measured: PromptSet, thinking: bool) -> dict[str, Any]:
    """Run max(2, C) short requests at concurrency C. Returns what to record in the cell."""
    count = max(MINIMUM, settings.concurrency)
    prompts = warmup_prompts(count)
    dialogues = [
        PlayedPrompt(FIRST_INDEX + i, f"warm-up-{i}", [text], tokenizer, thinking) for i, text in enumerate(prompts)
    ]
    records: list[RequestRecord] = []
    short = replace(settings, max_tokens=min(OUTPUT_TOKENS, settings.max_tokens))
    began = engine_now(engine)
    Load(engine, short, sink=records.extend, sha=prompt_sha).run(dialogues)
    return {
        "requests": len(records),
        "failed": sum(r.finish_reason == "error" for r in records),
        "concurrency": settings.concurrency,
        "tokens": sum(len(r.output_ids) for r in records),
        "seconds": engine_now(engine) - began,
    }
