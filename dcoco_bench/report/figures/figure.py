"""A figure as data first: rows that a CSV holds, and how they are drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

    def write(self, folder: Path) -> list[Path]:
        """`<name>.png`, `.svg`, `.pdf` and `.csv` in `folder`. Raises UserError where that cannot be written."""
        make_dir(folder)
        files = [folder / f"{self.name}.{kind}" for kind in FORMATS]
        with drawing() as pyplot:
            made = self.draw(pyplot, self.data)
            for file, (kind, options) in zip(files, FORMATS.items(), strict=True):
                try:
                    made.savefig(file, format=kind, **options)
                except OSError as error:
                    raise storage_error(file, error) from None
        table = folder / f"{self.name}.csv"
        write_atomic(table, self.data.to_csv(index=False, lineterminator="\n"))
        return [*files, table]

    def svg(self) -> str:
        """Inline, for the HTML report."""
        text = io.StringIO()
        with drawing() as pyplot:
            self.draw(pyplot, self.data).savefig(text, format="svg", **FORMATS["svg"])
        found = text.getvalue()
        return found[found.index("<svg") :]
