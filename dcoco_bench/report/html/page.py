"""`report.html`: summary, tables to sort and filter, figures, provenance. Everything from a log is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dcoco_bench.report.figures.figure import Figure
from dcoco_bench.report.table import BLANK, Column, Entry, Table, readable, why_missing


class CellView(NamedTuple):
    text: str
    tip: str  # where the number comes from, or why there is none
    sort: str  # plain number where there is one
    best: bool


def page(
    title: str,
    summary: Sequence[str],
    sections: Sequence[tuple[str, Sequence[Table]]],
    figures: Sequence[Figure],
    provenance: Sequence[str],
) -> str:
    """One HTML document. `sections`: heading and tables."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        summary=summary,
        sections=[(heading, [view(t) for t in tables]) for heading, tables in sections if tables],
        figures=[{"title": f.title, "caption": f.caption, "svg": Markup(_inert(f.svg()))} for f in figures],
        provenance=provenance,
        style=Markup((files(__package__) / "page.css").read_text(encoding="utf-8")),
        script=Markup((files(__package__) / "page.js").read_text(encoding="utf-8")),
    )


def view(table: Table) -> dict[str, Any]:
    columns = table.shown()
    return {
        "title": table.title,
        "caption": table.caption,
        "notes": table.notes,
        "heads": [f"{c.group} {c.title}".strip() for c in columns],
        "rows": [[cell(c, row.get(c.key, BLANK)) for c in columns] for row in table.rows],
        "missing": table.missing,
    }


def cell(column: Column, entry: Entry) -> CellView:
    parts = [*why_missing(entry)]
    parts += [f"source: {entry.source}"] if entry.source else []
    parts += [f"cells: {', '.join(entry.cells[:6])}{' …' if len(entry.cells) > 6 else ''}"] if entry.cells else []
    number = "" if isinstance(entry.value, str) or entry.value is None else repr(float(entry.value))
    return CellView(readable(column, entry), "; ".join(parts), number, entry.best)


def _inert(svg: str) -> str:
    """matplotlib escapes text in its SVG; a script element can only be somebody's mischief."""
    if "<script" in svg.lower():
        raise ValueError("a figure holds a script element")
    return svg
