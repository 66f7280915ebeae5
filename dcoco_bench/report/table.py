"""The table model: every entry is a value with its interval or the reason why there is none, never a bare string."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dcoco_bench.stats.intervals import Estimate


@dataclass(frozen=True)
class Entry:
    """`reason` says why the value, or its interval, is missing. `lo`, `hi`: 95 % interval; `sd`: over seeds."""

    value: float | str | None
    lo: float | None = None
    hi: float | None = None
    sd: float | None = None
    reason: str = ""

    @classmethod
    def of(cls, estimate: Estimate) -> Entry:
        return cls(estimate.value, estimate.lo, estimate.hi, estimate.sd, estimate.reason)

    @property
    def missing(self) -> bool:
        return self.value is None


BLANK = Entry(None)


@dataclass(frozen=True)
class Column:
    """`scale` and `digits` are for reading only (percent, milliseconds); the CSV holds the plain value in full."""

    key: str  # name in the CSV
    title: str  # name in Markdown, unit included
    digits: int = 0
    scale: float = 1.0
    interval: bool = False  # has `_lo`, `_hi` and `_sd` columns in the CSV
    shown: bool = True  # in Markdown; the CSV has every column


@dataclass
class Table:
    """`name` is the CSV file that the rows go to; tables of one name share their columns."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Entry]] = field(default_factory=list)

    def add(self, **entries: Entry) -> None:
        """Append a row. A column that is not given is blank without a reason; an unknown one is a mistake."""
        unknown = entries.keys() - {c.key for c in self.columns}
        if unknown:
            raise KeyError(f"table {self.name} has no column {sorted(unknown)}")
        self.rows.append(entries)

    def shown(self) -> list[Column]:
        """Columns for reading: those meant to be shown that hold something, or a reason, in some row."""

        def filled(column: Column) -> bool:
            entries = (row.get(column.key, BLANK) for row in self.rows)
            return any(e.value not in (None, "") or e.reason for e in entries)

        return [c for c in self.columns if c.shown and filled(c)]


def readable(column: Column, entry: Entry, interval: bool = True) -> str:
    """`12.3 ± 0.1 [11.9, 12.8]`, in the column's unit and digits; empty when missing."""
    if entry.value is None or isinstance(entry.value, str):
        return entry.value or ""

    def number(value: float) -> str:
        return f"{value * column.scale:.{column.digits}f}"

    text = number(entry.value)
    if entry.sd is not None:
        text += f" ± {number(entry.sd)}"
    if interval and entry.lo is not None and entry.hi is not None:
        text += f" [{number(entry.lo)}, {number(entry.hi)}]"
    return text


def reasons(column: Column, rows: Iterable[dict[str, Entry]]) -> list[str]:
    """The distinct reasons in a column, in order."""
    return list(dict.fromkeys(e.reason for row in rows if (e := row.get(column.key, BLANK)).reason))
