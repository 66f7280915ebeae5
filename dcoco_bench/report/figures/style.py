"""One look for all figures: a colour and a marker for each method, the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from dcoco_bench.method import MethodSpec
from dcoco_bench.registry import BASELINE, Registry

# Okabe and Ito (2008): told apart by colour-blind readers, and by their lightness in grey print.
PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#5B4B8A")
BASELINE_COLOUR = "#444444"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.")
SETTINGS: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "dcoco-bench",  # the same log gives the same bytes
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


class Look(NamedTuple):
    colour: str
    marker: str
    dash: Any  # variants of one method differ in it

    @property
    def line(self) -> dict[str, Any]:
        """As arguments of `plot`."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.dash}


@contextmanager
def drawing() -> Iterator[Any]:
    """matplotlib.pyplot without a display, in this style; every figure is closed at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(SETTINGS):
        try:
            yield pyplot
        finally:
            pyplot.close("all")


def look(spec: str, among: tuple[str, ...] = ()) -> Look:
    """By the method's place among the known ones; a variant (`dcoco@k=8`) by its place among its kin in `among`."""
    parsed = MethodSpec.parse(spec)
    if parsed.name == BASELINE:
        return Look(BASELINE_COLOUR, MARKERS[0], DASHES[0])
    known = _known()
    place = known.index(parsed.name) if parsed.name in known else sum(map(ord, parsed.name))
    kin = [s for s in among if MethodSpec.parse(s).name == parsed.name]
    turn = kin.index(spec) if spec in kin else 0
    return Look(PALETTE[place % len(PALETTE)], MARKERS[(place + turn) % len(MARKERS)], DASHES[turn % len(DASHES)])


@lru_cache(maxsize=1)
def _known() -> list[str]:
    return [name for name in Registry().entries if name != BASELINE]
