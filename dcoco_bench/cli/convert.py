"""`dcoco-bench convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dcoco_bench.errors import UserError


def register(app: typer.Typer) -> None:
    app.command("convert")(convert)


def convert(
    source: Annotated[Path, typer.Argument(help="A draft checkpoint's folder.")],
    out: Annotated[Path, typer.Option(help="New folder for the result.")],
    to: Annotated[str, typer.Option(help="ours (read a published draft) or published (write the method's form).")] = (
        "ours"
    ),
    layout: Annotated[
        str | None, typer.Option(help="fill-in or anchor-first, for a published draft that does not say.")
    ] = None,
    plugin_dir: Annotated[Path | None, typer.Option(help="Folder of further methods.")] = None,
) -> None:
    """Published draft checkpoints into this suite's form, and back."""
    from dcoco_bench.drafting.convert import from_published, to_published
    from dcoco_bench.drafting.layout import Layout
    from dcoco_bench.registry import Registry

    if to not in ("ours", "published"):
        raise UserError(f"--to {to}: unknown; say ours or published")
    if layout is not None and layout not in list(Layout):
        raise UserError(f"--layout {layout}: unknown; say fill-in or anchor-first")
    if out.exists() and any(out.iterdir()):
        raise UserError(f"--out {out}: not empty; choose a new folder")
    registry = Registry(plugin_dir)
    if to == "published":
        typer.echo(f"{out}: {to_published(source, out, registry)}")
    else:
        name = from_published(source, out, Layout(layout) if layout else None, registry)
        typer.echo(f"{out}: {name}; run it with --checkpoint {name}={out}")
