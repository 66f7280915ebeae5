"""Vanilla: the target alone, one token a pass. The baseline of every speed-up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcoco_bench.method import Method, Param


def _repeat(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError("must be at least 1")
    return value


class Vanilla(Method):
    name = "vanilla"
    summary = "autoregressive decoding, no draft: the baseline"
    paper = ""
    needs_checkpoint = False
    params: Mapping[str, Param] = {  # type: ignore[misc]
        "repeat": Param(0, _repeat, "repeat=1 adds a second, identical cell: the control for losslessness and noise"),
    }

    def drafter(self, checkpoint: Path | None, target: Any, params: Mapping[str, Any]) -> None:
        return None

    def vllm_draft(self, checkpoint: Path | None, params: Mapping[str, Any]) -> None:
        return None


METHOD = Vanilla()
