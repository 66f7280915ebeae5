"""Tables as Markdown: title, caption, pipes, and the reasons for what is missing as lettered notes."""

from __future__ import annotations

from collections.abc import Sequence

from dcoco_bench.report.table import BLANK, Column, Entry, Missing, Table, headline, letter, readable, why_missing


def render(table: Table, level: int = 2) -> str:
    """One table; an empty one says so."""
    columns = table.shown()
    lines = [f"{'#' * level} {table.title}", "", table.caption, ""]
    lines += [part for note in table.notes for part in (f"**{_escape(note)}**", "")]
    if not table.rows:
        return "\n".join([*lines, "Nothing to show.", "", *missing("Not run:", table.missing)])
    notes: dict[str, str] = {}

    def text(column: Column, entry: Entry) -> str:
        body = _escape(readable(column, entry))
        if entry.best and body:
            head = _escape(headline(column, entry))
            body = f"**{head}**{body.removeprefix(head)}"
        marks = [notes.setdefault(why, f"({letter(len(notes))})") for why in why_missing(entry)]
        return " ".join([body, *marks]).strip()

    def numeric(column: Column) -> bool:
        return column.always or any(isinstance(r.get(column.key, BLANK).value, int | float) for r in table.rows)

    lines.append("| " + " | ".join(_escape(f"{c.group} {c.title}".strip()) for c in columns) + " |")
    lines.append("|" + "|".join("---:" if numeric(c) else "---" for c in columns) + "|")
    for row in table.rows:
        entries = [(c, row.get(c.key, BLANK)) for c in columns]
        lines.append("| " + " | ".join(text(c, e) for c, e in entries) + " |")
    if notes:
        lines += ["", *(f"{mark} {_escape(reason)}  " for reason, mark in notes.items())]
    return "\n".join([*lines, "", *missing("Not run:", table.missing)])


def missing(heading: str, cells: Sequence[Missing]) -> list[str]:
    """What was not run, as a list of commands under a heading; nothing where nothing is missing."""
    if not cells:
        return []
    lines = [heading, ""]
    for m in cells:
        lines.append(f"* {_escape(m.what)}" + (f": `{m.command}`" if m.command else ""))
    return [*lines, ""]


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
