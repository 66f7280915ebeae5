"""A figure as data first: rows that a CSV holds, and how they are drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from dcoco_bench.log_store import make_dir, storage_error, write_atomic
from dcoco_bench.report.figures.style import drawing

FORMATS: dict[str, dict[str, Any]] = {  # no dates or versions in the files
    "png": {"dpi": 150, "metadata": {"Software": None}},
    "svg": {"metadata": {"Date": None, "Creator": None}},
    "pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
Draw = Callable[[Any, pd.DataFrame], Any]  # pyplot, rows -> a matplotlib figure


@dataclass(frozen=True)
class Figure:
    """`rows`: one mark each, by column name. `draw` sees nothing else."""

    name: str  # of its files
    title: str
    caption: str
    rows: Sequence[dict[str, Any]]
    draw: Draw

    @property
    def data(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)

    @cached_property
    def rendered(self) -> dict[str, bytes]:
        """The figure in every format, drawn once."""
        found = {}
        with drawing() as pyplot:
            made = self.draw(pyplot, self.data)
            for kind, options in FORMATS.items():
                buffer = io.BytesIO()
                made.savefig(buffer, format=kind, **options)
                found[kind] = buffer.getvalue()
        return found

    def write(self, folder: Path) -> list[Path]:
        """`<name>.png`, `.svg`, `.pdf` and `.csv` in `folder`. Raises UserError where that cannot be written."""
        make_dir(folder)
        files = []
        for kind, content in self.rendered.items():
            files.append(folder / f"{self.name}.{kind}")
            try:
                files[-1].write_bytes(content)
            except OSError as error:
                raise storage_error(files[-1], error) from None
        table = folder / f"{self.name}.csv"
        write_atomic(table, self.data.to_csv(index=False, lineterminator="\n"))
        return [*files, table]

    def svg(self) -> str:
        """Inline, for the HTML report."""
        text = self.rendered["svg"].decode()
        return text[text.index("<svg") :]
