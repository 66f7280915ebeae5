"""Open engines by what they are made of, so that methods alternate at every point without loading again."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dcoco_bench.cells import Cell
from dcoco_bench.engines.base import Engine
from dcoco_bench.errors import UserError


class EngineKey(NamedTuple):
    """Two cells with the same key may share an engine."""

    engine: str
    backbone: str
    method: str
    dtype: str
    engine_args: tuple[str, ...]
    record_candidates: bool

    @classmethod
    def of(cls, cell: Cell) -> EngineKey:
        return cls(cell.engine, cell.backbone, cell.method, cell.dtype, cell.engine_args, cell.record_candidates)


class EnginePool:
    """A context manager: all engines are closed on the way out, also after Ctrl-C."""

    def __init__(self, opener: Callable[[Cell], Engine], keep_open: int) -> None:
        self._opener, self._keep_open = opener, keep_open
        self._open: OrderedDict[EngineKey, Engine] = OrderedDict()

    def get(self, cell: Cell) -> Engine:
        key = EngineKey.of(cell)
        if key not in self._open:
            # Two backbones do not fit into memory together, and the matrix never comes back to the first.
            for other in [k for k in self._open if k.backbone != key.backbone]:
                self._close(other)
            while len(self._open) >= self._keep_open:
                self._close(next(iter(self._open)))
            self._open[key] = self._opener(cell)
        self._open.move_to_end(key)
        return self._open[key]

    def open_ahead(self, cells: Sequence[Cell]) -> None:
        """Open all engines of the first cell's backbone, so that what does not fit together shows before hours of work.

        Raises UserError. Other failures wait for the cell that they belong to.
        """
        firsts = {EngineKey.of(cell): cell for cell in reversed(cells) if cell.backbone == cells[0].backbone}
        if len(firsts) > self._keep_open:
            return
        for cell in reversed(firsts.values()):
            try:
                self.get(cell)
            except UserError:
                raise
            except Exception:
                continue

    def drop(self, cell: Cell) -> None:
        """Forget an engine that failed: the next cell gets a fresh one."""
        if EngineKey.of(cell) in self._open:
            self._close(EngineKey.of(cell))

    def _close(self, key: EngineKey) -> None:
        with contextlib.suppress(Exception):  # a broken engine may fail to close; the run goes on
            self._open.pop(key).close()

    def __enter__(self) -> EnginePool:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._open):
            self._close(key)
