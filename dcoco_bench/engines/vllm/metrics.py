"""The server's Prometheus counters, summed over engines (measurement.md 7.1)."""

from __future__ import annotations

import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

PREFIX = "vllm:"
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
KEPT = (
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    PER_POSITION,
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:num_preemptions_total",
)


def parse_counters(text: str) -> dict[str, float]:
    """Exposition text → name → value; a position's counter gets `[i]` behind its name. `_created` is no counter.

    Raises ValueError on text that is no exposition.
    """
    try:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except Exception as error:  # the parser trips over bad text in more ways than one
        raise ValueError(f"not Prometheus text ({type(error).__name__}: {error})") from None
    found: dict[str, float] = {}
    for sample in samples:
        if sample.name not in KEPT:
            continue
        name = sample.name
        if name == PER_POSITION:
            if "position" not in sample.labels:
                raise ValueError(f"{name} without a position")
            name += f"[{sample.labels['position']}]"
        found[name] = found.get(name, 0.0) + float(sample.value)
    return found


def read_counters(url: str) -> dict[str, float]:
    """Counters now; {} where the server has none to give (an error is the caller's to notice by their absence)."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            return parse_counters(answer.read().decode())
    except (urllib.error.URLError, OSError, ValueError):
        return {}
