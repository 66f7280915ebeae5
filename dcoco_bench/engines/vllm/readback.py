"""What the server really runs, and whether that is what the cell says."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from dcoco_bench.engines.vllm.command import ServerPlan
from dcoco_bench.errors import UserError


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.loads(answer.read())


def server_info(url: str) -> dict[str, Any]:
    """vLLM's own configuration; {} where the server does not show it (it needs VLLM_SERVER_DEV_MODE=1)."""
    try:
        config = _get(f"{url}/server_info?config_format=json")["vllm_config"]
    except (urllib.error.URLError, OSError, ValueError, KeyError):
        return {}
    return config if isinstance(config, dict) else {}


def served_model(url: str) -> dict[str, Any]:
    """The first model that the server lists. Raises UserError where it lists none or does not answer."""
    try:
        models = _get(f"{url}/v1/models")["data"]
    except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
        raise UserError(
            f"--base-url {url}: no vLLM server answers there ({error}); start one, or leave it out"
        ) from None
    if not models:
        raise UserError(f"--base-url {url}: the server lists no model")
    first: dict[str, Any] = models[0]
    return first


def version(url: str) -> str:
    try:
        return str(_get(f"{url}/version")["version"])
    except (urllib.error.URLError, OSError, ValueError, KeyError):
        return "unknown"


def effective(info: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that change an answer or a time, from `server_info`. A fact that is not shown is left out."""
    model, draft = info.get("model_config") or {}, info.get("speculative_config") or {}
    cache, scheduler = info.get("cache_config") or {}, info.get("scheduler_config") or {}
    found = {
        "model": model.get("model"),
        "dtype": str(model.get("dtype", "")).removeprefix("torch.") or None,
        "max_context": model.get("max_model_len"),
        "max_streams": scheduler.get("max_num_seqs"),
        "prefix_cache": cache.get("enable_prefix_caching"),
        "draft_tokens": draft.get("num_speculative_tokens"),
        "draft_method": draft.get("method"),
        "draft_model": draft.get("model"),
    }
    return {key: value for key, value in found.items() if value is not None}


def mismatches(plan: ServerPlan, found: Mapping[str, Any]) -> list[str]:
    """Where a running server differs from the plan; facts that it does not show are not judged."""
    wanted = {
        "model": plan.model,
        "dtype": plan.dtype,
        "prefix_cache": False,
        "draft_tokens": plan.draft.slots if plan.draft else None,
        "draft_method": plan.draft.method if plan.draft else None,
        "draft_model": str(plan.draft_folder) if plan.draft else None,
    }
    wrong = [f"{k} {found[k]!r} (the cell: {v!r})" for k, v in wanted.items() if k in found and found[k] != v]
    if found.get("max_context", plan.max_context) < plan.max_context:
        wrong.append(f"max_context {found['max_context']} (the cell needs {plan.max_context})")
    return wrong
