"""`dcoco-bench generate` and `dcoco-bench train`: added by `dcoco_bench.training.command`, imported when called."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Nothing yet: the commands come with the training package."""
