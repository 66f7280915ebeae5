"""The suites that can be named: built in, and those of plug-in folders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from dcoco_bench.errors import UserError, nearest
from dcoco_bench.prompts.suite import Suite, read_suite

ALL = "all"


def list_suites(extra_dirs: Sequence[Path] = ()) -> list[Suite]:
    """Those of `--suite all` first, in the usual order of the literature, then the others by name.

    An extra folder holds suite files itself or in its `suites/`; its suites win over built-in ones of the same name.
    """
    found = dict(_built_in())
    for folder in extra_dirs:
        found.update({suite.name: suite for suite in _in_folder(folder)})
    order = {name: place for place, name in enumerate(_ORDER)}
    return sorted(found.values(), key=lambda s: (not s.in_all, order.get(s.name, len(order)), s.name))


def get_suite(name: str, extra_dirs: Sequence[Path] = ()) -> Suite:
    known = {suite.name: suite for suite in list_suites(extra_dirs)}
    if name not in known:
        raise UserError(f"unknown suite {name!r}; {nearest(name, [*known, ALL])}")
    return known[name]


def resolve_suites(text: str, extra_dirs: Sequence[Path] = ()) -> tuple[str, ...]:
    """`gsm8k,math500` or `all` → names, each once, in the order given."""
    names: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part == ALL:
            names += [suite.name for suite in list_suites(extra_dirs) if suite.in_all]
        else:
            names.append(get_suite(part, extra_dirs).name)
    if not names:
        raise UserError(f"no suite in {text!r}; give names separated by commas, or {ALL!r}")
    return tuple(dict.fromkeys(names))


def sample_file(name: str, extra_dirs: Sequence[Path] = ()) -> Traversable | None:
    """The suite's own few prompts, written for this project."""
    own = files("dcoco_bench.suites") / "samples" / f"{name}.jsonl"
    beside = [home / "samples" / f"{name}.jsonl" for folder in extra_dirs for home in _homes(folder)]
    return next((file for file in [*reversed(beside), own] if file.is_file()), None)


_ORDER = (
    "gsm8k",
    "math500",
    "aime25",
    "humaneval",
    "mbpp",
    "livecodebench",
    "mt-bench",
    "alpaca",
    "arena-hard-v2",
    "speedbench-public",
)


@cache
def _built_in() -> dict[str, Suite]:
    found = (read_suite(file) for file in files("dcoco_bench.suites").iterdir() if file.name.endswith(".toml"))
    return {suite.name: suite for suite in found}


def _in_folder(folder: Path) -> list[Suite]:
    if not folder.is_dir():
        raise UserError(f"--plugin-dir {folder}: no such folder; give one with suite files in its suites/")
    return [read_suite(file) for home in _homes(folder) for file in sorted(home.glob("*.toml"))]


def _homes(folder: Path) -> tuple[Path, ...]:
    return folder, folder / "suites"
