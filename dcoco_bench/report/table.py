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
    aside: Entry | None = None  # shown in parentheses: the speed-up beside TPS, the change beside an ablation
    best: bool = False  # of its row, to be shown in bold
    cells: tuple[str, ...] = ()  # `run/cell id` of every cell in the log that the value was made from
    source: str = ""  # where a paper's value stands; empty: measured here

    @classmethod
    def of(cls, estimate: Estimate, cells: Iterable[str] = ()) -> Entry:
        return cls(estimate.value, estimate.lo, estimate.hi, estimate.sd, estimate.reason, cells=tuple(cells))

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
    group: str = ""  # heading above this column and its neighbours of the same group
    aside: Column | None = None  # how `Entry.aside` is written; in the CSV its name follows this column's
    sign: bool = False  # a change: written with its sign
    always: bool = False  # shown also where it is blank in every row: a gap that the reader must see


@dataclass(frozen=True)
class Missing:
    """Cells that were not run, and what would run them. An empty command: nothing can, `what` says why."""

    what: str
    command: str = ""


@dataclass
class Table:
    """`name` is the CSV file that the rows go to, which has the columns of all tables of that name."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Entry]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a reader must know about the whole table
    missing: list[Missing] = field(default_factory=list)

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

        return [c for c in self.columns if c.shown and (c.always or filled(c))]


def number(column: Column, value: float, sign: bool = False) -> str:
    """A value in the column's unit and digits, with a true minus sign; never a negative zero."""
    text = f"{value * column.scale:{'+' if sign else ''}.{column.digits}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text.replace("-", "+" if sign else "")


def spread(column: Column, entry: Entry) -> str:
    """`± 0.1`, `[11.9, 12.8]`, both or neither."""
    parts = []
    if entry.sd is not None:
        parts.append(f"± {number(column, entry.sd)}")
    if entry.lo is not None and entry.hi is not None:
        parts.append(f"[{number(column, entry.lo, column.sign)}, {number(column, entry.hi, column.sign)}]")
    return " ".join(parts)


def headline(column: Column, entry: Entry) -> str:
    """The bare value; empty when missing."""
    if entry.value is None or isinstance(entry.value, str):
        return entry.value or ""
    return number(column, entry.value, column.sign)


def readable(column: Column, entry: Entry, interval: bool = True) -> str:
    """`12.3 ± 0.1 [11.9, 12.8] (1.50 [1.44, 1.59])`, in the column's unit and digits; empty when missing."""
    text = headline(column, entry)
    if interval and isinstance(entry.value, float | int):
        text = f"{text} {spread(column, entry)}".strip()
    if column.aside and entry.aside and not entry.aside.missing:
        text += f" ({readable(column.aside, entry.aside, interval)})"
    return text


def reasons(column: Column, rows: Iterable[dict[str, Entry]]) -> list[str]:
    """The distinct reasons in a column, in order."""
    return list(dict.fromkeys(e.reason for row in rows if (e := row.get(column.key, BLANK)).reason))


def why_missing(entry: Entry) -> list[str]:
    """The reasons of an entry and of what stands beside it, each once."""
    found = [entry.reason, entry.aside.reason if entry.aside else ""]
    return list(dict.fromkeys(filter(None, found)))


def letter(place: int) -> str:
    """The mark of a note: a … z, aa, ab …"""
    text = ""
    while place >= 0:
        place, rest = divmod(place, 26)
        text, place = chr(ord("a") + rest) + text, place - 1
    return text
