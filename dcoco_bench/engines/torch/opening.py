"""Open the embedded engine for one (backbone, method). The target is loaded once and shared by its methods."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from dcoco_bench.backbone import Backbone, load_tokenizer
from dcoco_bench.engines.synthetic import ARGUMENT, synthetic_tau
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import Target, load_model
from dcoco_bench.errors import UserError
from dcoco_bench.machine import default_device
from dcoco_bench.method import Method

ARGUMENTS = ("device", "threads", "trust-remote-code", ARGUMENT)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@lru_cache(maxsize=1)
def _shared_model(source: str, dtype: str, device: str, trust_remote_code: bool) -> Any:
    """Loaded once: engines of several methods run the same model, each with its own caches."""
    transformers_logging.disable_progress_bar()
    return load_model(source, DTYPES[dtype], torch.device(device), trust_remote_code=trust_remote_code)


def open_target(backbone: Backbone, dtype: str, engine_args: Mapping[str, str]) -> Target:
    """Raises UserError for an unknown dtype, device or engine argument, or a model that cannot be loaded."""
    if unknown := sorted(set(engine_args) - set(ARGUMENTS)):
        raise UserError(
            f"--engine-arg {unknown[0]}: not an argument of the torch engine; known: {', '.join(ARGUMENTS)}"
        )
    if dtype not in DTYPES:
        raise UserError(f"--dtype {dtype}: not a dtype of the torch engine; known: {', '.join(DTYPES)}")
    if threads := engine_args.get("threads"):
        if not threads.isdigit() or int(threads) < 1:
            raise UserError(f"--engine-arg threads={threads}: must be a whole number of at least 1")
        torch.set_num_threads(int(threads))
    device = engine_args.get("device", default_device())
    source, trust = str(backbone.materialise()), engine_args.get("trust-remote-code") == "true"
    try:
        return Target(_shared_model(source, dtype, device, trust))
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"backbone {backbone.name!r} cannot be loaded on {device} from {source!r}: {reason}") from None


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends an answer: the generation config's, and the tokenizer's own eos."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(i for i in (*ids, tokenizer.eos_token_id) if i is not None)


def open_engine(
    backbone: Backbone,
    method: Method,
    params: Mapping[str, Any],
    checkpoint: Path | None,
    *,
    dtype: str,
    seed: int,
    max_concurrency: int,
    max_context: int,
    record_candidates: bool,
    engine_args: Mapping[str, str],
    log_dir: Path,
) -> TorchEngine:
    """See `engines.opening.Opener`."""
    torch.manual_seed(seed)
    target = open_target(backbone, dtype, engine_args)
    drafter = method.drafter(checkpoint, target, params)
    config = getattr(drafter, "config", None)
    if config is not None and config.max_position_embeddings < max_context:
        raise UserError(
            f"draft checkpoint {checkpoint}: trained for {config.max_position_embeddings} positions, the run needs "
            f"{max_context}; acceptance would collapse past it. Lower --max-tokens or use another draft"
        )
    return TorchEngine(
        target,
        drafter,
        stop_ids=stop_ids(target.model, load_tokenizer(backbone)),
        max_concurrency=max_concurrency,
        max_context=max_context,
        record_candidates=record_candidates,
        synthetic_tau=synthetic_tau(engine_args, drafter.slots if drafter else None),
    )
