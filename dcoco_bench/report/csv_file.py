"""Tables as CSV: plain units (seconds, fractions), full precision, interval columns, and one column of reasons."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dcoco_bench.report.table import BLANK, Column, Entry, Table


def render(tables: Sequence[Table]) -> str:
    """Tables of one name as one long file. Missing values are empty, and `notes` says why; `cells` says where the
    values come from, `source` where a paper's do."""
    declared = {c.key: c for table in tables for c in table.columns}
    columns = [part for c in declared.values() for part in _parts(c)]
    traced = [key for key in ("cells", "source") if any(getattr(e, key) for e in _entries(tables))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for c, _ in columns for name in _names(c)] + ["notes", *traced])
    for table in tables:
        for row in table.rows:
            entries = [(c, pick(row)) for c, pick in columns]
            notes = "; ".join(f"{c.key}: {e.reason}" for c, e in entries if e.reason)
            origin = ["; ".join(f"{c.key}: {found}" for c, e in entries if (found := _trace(e, key))) for key in traced]
            writer.writerow([v for c, e in entries for v in _values(c, e)] + [notes, *origin])
    return out.getvalue()


def _parts(column: Column) -> list[tuple[Column, Callable[[dict[str, Entry]], Entry]]]:
    """The column, and what stands in parentheses beside it as a column of its own."""

    def main(row: dict[str, Entry]) -> Entry:
        return row.get(column.key, BLANK)

    def aside(row: dict[str, Entry]) -> Entry:
        return main(row).aside or BLANK

    if column.aside is None:
        return [(column, main)]
    return [(column, main), (replace(column.aside, key=f"{column.key}_{column.aside.key}"), aside)]


def _entries(tables: Sequence[Table]) -> Iterator[Entry]:
    return (entry for table in tables for row in table.rows for entry in row.values())


def _trace(entry: Entry, key: str) -> str:
    return " ".join(entry.cells) if key == "cells" else entry.source


def _names(column: Column) -> list[str]:
    return [column.key] + ([f"{column.key}_{part}" for part in ("lo", "hi", "sd")] if column.interval else [])


def _values(column: Column, entry: Entry) -> list[str]:
    parts: list[float | str | None] = [entry.value]
    if column.interval:
        parts += [entry.lo, entry.hi, entry.sd]
    return [_exact(part) for part in parts]


def _exact(value: float | str | None) -> str:
    """12 digits: beyond them sums differ between machines, and the same log would give other bytes."""
    if value is None:
        return ""
    return value if isinstance(value, str) else format(value, ".12g")
