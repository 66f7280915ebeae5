"""Where results are printed."""

from __future__ import annotations

from rich.console import Console

PIPE_WIDTH = 160  # into a file or a pipe, where rich would squeeze tables into 80 columns


def stdout() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)
