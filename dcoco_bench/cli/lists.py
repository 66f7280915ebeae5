"""`dcoco-bench list methods|suites|backbones|engines`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from dcoco_bench.cli.console import stdout

PluginDir = Annotated[Path | None, typer.Option(help="Your methods and suites.")]


def register(app: typer.Typer) -> None:
    lists = typer.Typer(help="What can be named in a run.", no_args_is_help=True)
    lists.command("methods")(methods)
    lists.command("suites")(suites)
    lists.command("backbones")(backbones)
    lists.command("engines")(engines)
    app.add_typer(lists, name="list")


def methods(plugin_dir: PluginDir = None) -> None:
    """Methods, their parameters, and the backbones that they have a checkpoint for."""
    from dcoco_bench.registry import Registry

    table = _table("method", "what it is", "parameters", "checkpoints for", "paper", "from")
    for name, entry in Registry(plugin_dir).entries.items():
        method = entry.method
        parameters = "\n".join(f"{k}={p.default}: {p.help}" for k, p in method.params.items()) or "–"
        has = ", ".join(entry.checkpoints()) if method.needs_checkpoint else "needs none"
        table.add_row(*map(escape, (name, method.summary, parameters, has or "–", method.paper or "–", entry.origin)))
    stdout().print(table)


def suites(plugin_dir: PluginDir = None) -> None:
    """Suites, and where their prompts come from."""
    from dcoco_bench.prompts import list_suites
    from dcoco_bench.registry import Registry

    table = _table("suite", "category", "version", "turns", "licence", "source")
    for suite in list_suites(Registry(plugin_dir).suite_dirs):
        cells = (suite.name, suite.category, suite.version, suite.turns, suite.licence, suite.source)
        table.add_row(*(escape(str(cell)) for cell in cells))
    stdout().print(table)


def backbones() -> None:
    """Target models."""
    from dcoco_bench.backbone import list_backbones

    table = _table("backbone", "model", "source", "context", "thinking", "licence")
    for b in list_backbones():
        table.add_row(b.name, b.model, b.source, f"{b.context_length:,}", ", ".join(b.thinking), b.licence)
    stdout().print(table)


def engines() -> None:
    """Engines, and whether they can run here."""
    from dcoco_bench.engines.opening import list_engines

    table = _table("engine", "what it is", "here")
    for kind in list_engines():
        here = f"needs {', '.join(kind.missing)}; {kind.how_to_get}" if kind.missing else "ready"
        table.add_row(kind.name, kind.summary, escape(here))
    stdout().print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=place == 0)
    return table
