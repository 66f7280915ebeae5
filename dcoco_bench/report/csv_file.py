"""Tables as CSV: plain units (seconds, fractions), full precision, interval columns, and one column of reasons."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from dcoco_bench.report.table import BLANK, Column, Entry, Table


def render(tables: Sequence[Table]) -> str:
    """Tables of one name as one long file. Missing values are empty, and `notes` says why."""
    columns = tables[0].columns
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for c in columns for name in _names(c)] + ["notes"])
    for table in tables:
        for row in table.rows:
            entries = [(c, row.get(c.key, BLANK)) for c in columns]
            notes = "; ".join(f"{c.key}: {e.reason}" for c, e in entries if e.reason)
            writer.writerow([v for c, e in entries for v in _values(c, e)] + [notes])
    return out.getvalue()


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
