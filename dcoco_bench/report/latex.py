"""Tables as LaTeX (booktabs), and one document that holds them all. pdfLaTeX, XeLaTeX and Tectonic take it as it is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby

from dcoco_bench.report.table import (
    BLANK,
    Column,
    Entry,
    Missing,
    Table,
    headline,
    letter,
    readable,
    spread,
    why_missing,
)

ROWS = 26  # a longer table is cut into parts, each with its head: a float cannot span pages

PREAMBLE = r"""\documentclass[10pt,a4paper,landscape]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
\usepackage{textcomp}
\usepackage{amsmath}
\usepackage[margin=15mm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\newsavebox{\widetable}
% A table wider or taller than the page is made smaller, a small one is left alone.
\newcommand{\fitted}[1]{\sbox{\widetable}{#1}%
  \ifdim\wd\widetable>\linewidth\sbox{\widetable}{\resizebox{\linewidth}{!}{\usebox{\widetable}}}\fi
  \ifdim\ht\widetable>0.62\textheight\resizebox{!}{0.62\textheight}{\usebox{\widetable}}\else\usebox{\widetable}\fi}
\sloppy
\begin{document}
"""

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "`": r"\textasciigrave{}", "'": r"{\textquotesingle}", '"': r"\textquotedbl{}",
    "τ": r"$\tau$", "λ": r"$\lambda$", "ρ": r"$\rho$", "Σ": r"$\Sigma$", "Δ": r"$\Delta$", "×": r"$\times$",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "—": "---", "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\to$",
    "…": r"\ldots{}", "·": r"$\cdot$", "≈": r"$\approx$", "²": r"$^2$", "≡": r"$\equiv$", "\n": " ", "\0": "{}",
}  # fmt: skip


def escape(text: str) -> str:
    """Text for pdfLaTeX with T1 fonts. A sign that these fonts lack is written as its code point, never lost."""
    apart = re.sub("-(?=-)", "-\0", text)  # two hyphens of a command are no dash
    return "".join(_SPECIAL[c] if c in _SPECIAL else _plain(c) for c in apart)


def _plain(sign: str) -> str:
    if " " <= sign <= "~" or sign in "äöüÄÖÜßéèêëáàâåæøñóòôõúùûíìîïçÉÅØÆÑÇ":
        return sign
    bare = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return "".join(_SPECIAL.get(c, c) for c in bare) if bare else rf"[U+{ord(sign):04X}]"


def render(tables: Sequence[Table]) -> str:
    """Floats of tables of one name, to be \\input; they need booktabs, graphicx and `\\fitted` from the preamble."""
    return "\\clearpage\n".join("\n".join(_blocks(table)) for table in tables)


def document(title: str, names: Iterable[str], not_run: Sequence[Missing] = ()) -> str:
    """`report.tex`: inputs `tables/<name>.tex`, in order. `not_run`: what the logs could not fill."""
    lines = [PREAMBLE, rf"\section*{{dcoco-bench: {escape(title)}}}", ""]
    lines += [f"\\input{{tables/{name}.tex}}\n\\clearpage" for name in names]
    lines += _not_run(not_run)
    return "\n".join([*lines, r"\end{document}", ""])


def _blocks(table: Table) -> list[str]:
    """The whole table, or parts of it that fit on a page each, then what was not run."""
    columns = table.shown()
    if not table.rows or not columns:
        return [f"\\paragraph{{{escape(table.title)}}} Nothing to show.\n"]
    parts = [table.rows[at : at + ROWS] for at in range(0, len(table.rows), ROWS)]
    names = [f" (part {i} of {len(parts)})" if len(parts) > 1 else "" for i in range(1, len(parts) + 1)]
    floats = [_float(table, columns, rows, name) for rows, name in zip(parts, names, strict=True)]
    return [*floats, *_not_run(table.missing)]


def _float(table: Table, columns: list[Column], rows: Sequence[dict[str, Entry]], part: str) -> str:
    notes: dict[str, str] = {}
    numeric = {c.key: c.interval or any(_is_number(r.get(c.key, BLANK)) for r in table.rows) for c in columns}
    body = [" & ".join(_entry(c, row.get(c.key, BLANK), notes) for c in columns) + r" \\" for row in rows]
    lines = [r"\begin{table}[!htp]", r"\centering"]
    lines.append(rf"{{\bfseries {escape(table.title + part)}\par}}\medskip")
    lines += [r"\fitted{%", rf"\begin{{tabular}}{{{''.join('r' if numeric[c.key] else 'l' for c in columns)}}}"]
    lines += [r"\toprule", *_groups(columns), " & ".join(escape(c.title) for c in columns) + r" \\", r"\midrule"]
    lines += [*_ruled(body, rows), r"\bottomrule", r"\end{tabular}}", ""]
    first = not part or part.startswith(" (part 1 ")
    text = [escape(table.caption), *(rf"\textbf{{{escape(note)}}}" for note in table.notes)] if first else []
    text += [f"{mark} {escape(why)}." for why, mark in notes.items()]
    lines += [r"\par\medskip\begin{minipage}{\linewidth}\scriptsize", "\\par\n".join(text), r"\end{minipage}"]
    return "\n".join([*lines, r"\end{table}", ""])


def _not_run(cells: Sequence[Missing]) -> list[str]:
    """The commands that would fill the gaps, as text below the float: a long list may break over pages."""
    if not cells:
        return []
    items = [rf"\item {escape(m.what)}" + (rf": {{\ttfamily {escape(m.command)}}}" if m.command else "") for m in cells]
    return ["\n".join([r"{\scriptsize\noindent Not run:", r"\begin{itemize}", *items, r"\end{itemize}}", ""])]


def _is_number(entry: Entry) -> bool:
    return isinstance(entry.value, int | float)


def _groups(columns: list[Column]) -> list[str]:
    """The row of spanning heads and the rules below them."""
    if not any(c.group for c in columns):
        return []
    heads, rules, at = [], [], 1
    for group, members in groupby(columns, key=lambda c: c.group):
        width = len(list(members))
        heads.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(group)}}}")
        rules += [rf"\cmidrule(lr){{{at}-{at + width - 1}}}"] if group else []
        at += width
    return [" & ".join(heads) + r" \\", *rules]


def _ruled(body: list[str], rows: Sequence[dict[str, Entry]]) -> list[str]:
    """A rule where the temperature changes."""
    lines = []
    for i, (line, row) in enumerate(zip(body, rows, strict=True)):
        if i and row.get("sampling", BLANK).value != rows[i - 1].get("sampling", BLANK).value:
            lines.append(r"\midrule")
        lines.append(line)
    return lines


def _entry(column: Column, entry: Entry, notes: dict[str, str]) -> str:
    """A value with what stands beside it on one line, and the intervals of both below."""
    marks = [notes.setdefault(why, f"({letter(len(notes))})") for why in why_missing(entry)]
    mark = rf"\textsuperscript{{{' '.join(marks)}}}" if marks else ""
    if not _is_number(entry):
        return escape(readable(column, entry)) + mark
    top, below = escape(headline(column, entry)), escape(spread(column, entry))
    top = rf"\textbf{{{top}}}" if entry.best else top
    if column.aside and entry.aside and not entry.aside.missing:
        top += f" ({escape(headline(column.aside, entry.aside))})"
        beside = escape(spread(column.aside, entry.aside))
        below = f"{below} ({beside})" if beside else below
    return rf"\shortstack[r]{{{top}{mark}\\{{\tiny {below}}}}}" if below else top + mark
