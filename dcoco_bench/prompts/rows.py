"""Rows of prompt files: read, checked, and turned into prompts. A broken row stops the run; it is never left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dcoco_bench.errors import UserError
from dcoco_bench.prompts.sets import Prompt
from dcoco_bench.prompts.suite import EXACT, Suite, TextFile

# What SPEED-Bench ships in place of texts that are to be fetched from their own sources.
PLACEHOLDERS = ("FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE", "{article}")

Reference = dict[str, Any]


def read_prompts(suite: Suite, file: TextFile, references: dict[str, Reference] | None = None) -> list[Prompt]:
    """The prompts of a JSON-lines file. Raises UserError with file, line, reason and mend."""
    return prompts_of(suite, read_rows(file), references or {})


def prompts_of(
    suite: Suite, rows: Iterable[tuple[str, dict[str, Any]]], references: dict[str, Reference]
) -> list[Prompt]:
    """`rows`: (where it stands, the row). Raises UserError on a broken row, and on no row at all."""
    prompts: list[Prompt] = []
    seen: dict[str, str] = {}
    for where, row in rows:
        if reason := _fault(row):
            raise UserError(f"{where}: {reason}")
        if row["id"] in seen:
            raise UserError(f"{where}: id {row['id']!r} was used before ({seen[row['id']]}); give every row its own id")
        seen[row["id"]] = where
        reference = references.get(row["id"], {})
        category = suite.prompt_category.of(row["id"], row, reference)
        answer = _answer(reference | row) if suite.reference in EXACT else None
        prompts.append(Prompt(row["id"], tuple(row["turns"]), category or suite.category, answer))
    return prompts


def read_references(file: Path) -> dict[str, Reference]:
    """refs/<suite>.jsonl by id; empty where there is no such file."""
    if not file.is_file():
        return {}
    references = {}
    for where, row in read_rows(file):
        if not isinstance(row.get("id"), str):
            raise UserError(f'{where}: no "id" text; give the id of the prompt that this row is about')
        references[row["id"]] = row
    return references


def read_rows(file: TextFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file and line, JSON object) of each line; blank lines are passed over."""
    try:
        text = file.read_text(encoding="utf-8").removeprefix("\ufeff")  # a BOM from a Windows editor
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({error}); give a JSON-lines file in UTF-8") from None
    empty = True
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines() would also cut at U+2028 inside texts
        if not line.strip():
            continue
        where = f"{file} line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # huge numbers and deep nesting included
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise UserError(f"{where}: not JSON ({reason}); write one object per line") from None
        if not isinstance(row, dict):
            raise UserError(f'{where}: not a JSON object; write {{"id": ..., "turns": [...]}}')
        empty = False
        yield where, row
    if empty:
        raise UserError(f"{file}: holds no row; fill it or remove it")


def _answer(row: dict[str, Any]) -> str | None:
    """The field `answer`; GSM8K's own rows have it behind their solution and four hashes."""
    answer = row.get("answer")
    return str(answer).rsplit("####", 1)[-1].strip() if isinstance(answer, str | int) else None


def _fault(row: dict[str, Any]) -> str | None:
    """Reason and mend, None for a sound row."""
    if not isinstance(row.get("id"), str) or not row["id"].strip():
        return 'no "id" text; give every row its own id'
    turns = row.get("turns")
    if turns is None:
        return 'no "turns"; write "turns": ["the prompt"]'
    if not isinstance(turns, list):
        return f'"turns" is {type(turns).__name__}, not a list; write "turns": ["the prompt"]'
    if not turns:
        return '"turns" is empty; give at least one text'
    for place, turn in enumerate(turns, start=1):
        if not isinstance(turn, str):
            return f"turn {place} is {type(turn).__name__}, not a text; write turns as texts"
        if not turn.isprintable() and any("\ud800" <= c <= "\udfff" for c in turn):
            return f"turn {place} holds half of a surrogate pair; write the text in UTF-8"
        if not turn.strip():
            return f"turn {place} is blank; give its text or remove the row"
        for placeholder in PLACEHOLDERS:
            if placeholder in turn:
                return (
                    f"turn {place} holds the SPEED-Bench placeholder {placeholder!r}; "
                    "prepare the data with NVIDIA's specdec_bench first (suites/README.md), or use speedbench-public"
                )
    return None
