"""Tables as Markdown: title, caption, pipes, and the reasons for what is missing as lettered notes."""

from __future__ import annotations

from dcoco_bench.report.table import BLANK, Entry, Table, readable


def render(table: Table, level: int = 2) -> str:
    """One table; an empty one says so."""
    columns = table.shown()
    lines = [f"{'#' * level} {table.title}", "", table.caption, ""]
    if not table.rows:
        return "\n".join([*lines, "Nothing to show.", ""])
    notes: dict[str, str] = {}

    def text(column_entry: str, entry: Entry) -> str:
        if not entry.reason:
            return _escape(column_entry)
        mark = notes.setdefault(entry.reason, f"({_letter(len(notes))})")
        return f"{_escape(column_entry)} {mark}".strip()

    numeric = {c.key: any(isinstance(r.get(c.key, BLANK).value, (int, float)) for r in table.rows) for c in columns}
    lines.append("| " + " | ".join(_escape(c.title) for c in columns) + " |")
    lines.append("|" + "|".join("---:" if numeric[c.key] else "---" for c in columns) + "|")
    for row in table.rows:
        entries = [(c, row.get(c.key, BLANK)) for c in columns]
        lines.append("| " + " | ".join(text(readable(c, e), e) for c, e in entries) + " |")
    if notes:
        lines += ["", *(f"{mark} {_escape(reason)}  " for reason, mark in notes.items())]
    return "\n".join([*lines, ""])


def _letter(place: int) -> str:
    """a … z, aa, ab …"""
    text = ""
    while place >= 0:
        place, rest = divmod(place, 26)
        text, place = chr(ord("a") + rest) + text, place - 1
    return text


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
