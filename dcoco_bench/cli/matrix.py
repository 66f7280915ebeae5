"""Flags and a matrix file → a validated Matrix. Flags win over the file, the file over the defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from dcoco_bench.backbone import resolve_backbone
from dcoco_bench.cells import Matrix, Sampling
from dcoco_bench.engines.opening import get_engine
from dcoco_bench.errors import UserError, nearest
from dcoco_bench.log_read import first_reason
from dcoco_bench.method import split_specs
from dcoco_bench.prompts import resolve_suites
from dcoco_bench.registry import Registry

FLAGS = {
    "suites": "--suite",
    "methods": "--method",
    "concurrency": "--conc",
    "samplings": "--temperature/--top-p/--top-k",
    "thinking": "--thinking",
    "backbones": "--backbone",
    "engine": "--engine",
    "num_prompts": "--num-prompts",
    "max_tokens": "--max-tokens",
    "seeds": "--seeds",
    "turns": "--turns",
    "dtype": "--dtype",
    "record_candidates": "--record-candidates",
    "engine_args": "--engine-arg",
}
CHECKPOINTS = "checkpoints"
DTYPES = ("auto", "float32", "bfloat16")
T = TypeVar("T")


@dataclass(frozen=True)
class MatrixFlags:
    """The flags as text; None = not given."""

    suite: str | None = None
    method: str | None = None
    conc: str | None = None
    temperature: str | None = None
    top_p: float | None = None
    top_k: int | None = None
    thinking: str | None = None
    backbone: str | None = None
    engine: str | None = None
    num_prompts: int | None = None
    max_tokens: int | None = None
    seeds: str | None = None
    turns: str | None = None
    dtype: str | None = None
    record_candidates: bool | None = None
    engine_args: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        return self != MatrixFlags()


def build_matrix(flags: MatrixFlags, file: Path | None, registry: Registry) -> Matrix:
    """Raises UserError with the flag or the file's key, the reason and the mend."""
    values = _read_file(file) if file else {}
    values.pop(CHECKPOINTS, None)
    values.update(_from_flags(flags))
    if not values.get("suites"):
        raise UserError(
            "no suite given; use --suite gsm8k (see `dcoco-bench list suites`), --suite all or --matrix FILE"
        )
    values["suites"] = resolve_suites(",".join(_texts(values["suites"])), registry.suite_dirs)
    kind = get_engine(str(values.setdefault("engine", "torch")))
    values.setdefault("max_tokens", kind.max_tokens)
    values.setdefault("num_prompts", kind.num_prompts)
    if values["num_prompts"] == -1:
        values["num_prompts"] = None
    if values.setdefault("dtype", "auto") == "auto":
        values["dtype"] = kind.dtype()
    backbones = [resolve_backbone(name) for name in _texts(values.get("backbones", ("smollm2-135m",)))]
    values["backbones"] = [backbone.name for backbone in backbones]
    if not values.get("methods"):
        usable = [set(registry.methods_with_checkpoint(backbone.label)) for backbone in backbones]
        values["methods"] = [name for name in registry.entries if all(name in names for names in usable)]
    values["methods"] = [registry.canonical(spec) for spec in _texts(values["methods"])]
    try:
        return Matrix.model_validate(values)
    except ValidationError as error:
        raise _as_user_error(error, file) from None


def _from_flags(f: MatrixFlags) -> dict[str, Any]:
    values: dict[str, Any] = {
        "suites": _split(f.suite) if f.suite is not None else None,
        "methods": split_specs(f.method) if f.method is not None else None,
        "backbones": _split(f.backbone) if f.backbone is not None else None,
        "concurrency": numbers("--conc", f.conc, int, "1,4,32", least=1),
        "seeds": numbers("--seeds", f.seeds, int, "0,1,2", least=0),
        "thinking": _thinking(f.thinking),
        "samplings": _samplings(f),
        "engine": f.engine,
        "num_prompts": _at_least_one("--num-prompts", f.num_prompts, "or -1 for the whole suite", also=-1),
        "max_tokens": _at_least_one("--max-tokens", f.max_tokens, "e.g. 128"),
        "turns": _choice("--turns", f.turns, ("all", "first")),
        "dtype": _choice("--dtype", f.dtype, DTYPES),
        "record_candidates": f.record_candidates,
        "engine_args": f.engine_args or None,
    }
    for flag, name in (("--suite", "suites"), ("--method", "methods"), ("--backbone", "backbones")):
        if values[name] == []:
            raise UserError(f"{flag} is empty; see `dcoco-bench list {name}`")
    return {key: value for key, value in values.items() if value is not None}


def numbers(flag: str, text: str | None, kind: Callable[[str], T], example: str, least: float) -> list[T] | None:
    """`1,4,32` → [1, 4, 32]."""
    if text is None:
        return None
    values = []
    for part in _split(text):
        try:
            value = kind(part)
        except ValueError:
            raise UserError(f"{flag} {part}: not a number; write e.g. {flag} {example}") from None
        if not least <= value < float("inf"):  # type: ignore[operator]
            raise UserError(f"{flag} {part}: must be {least:g} or more; write e.g. {flag} {example}")
        values.append(value)
    if not values:
        raise UserError(f"{flag} is empty; write e.g. {flag} {example}")
    return values


def _samplings(f: MatrixFlags) -> list[Sampling] | None:
    temperatures = numbers("--temperature", f.temperature, float, "0,1", least=0)
    if temperatures is None and f.top_p is None and f.top_k is None:
        return None
    if f.top_p is not None and not 0 < f.top_p <= 1:
        raise UserError(f"--top-p {f.top_p:g}: must be above 0 and at most 1; 1 turns it off")
    if f.top_k is not None and f.top_k < 0:
        raise UserError(f"--top-k {f.top_k}: must be 0 or more; 0 turns it off")
    try:
        return [
            # Greedy decoding has no use for top-p and top-k: one form for one distribution.
            Sampling(
                temperature=t, top_p=1.0 if f.top_p is None or not t else f.top_p, top_k=(f.top_k or 0) if t else 0
            )
            for t in (temperatures or [0.0])
        ]
    except ValidationError as error:
        raise UserError(f"--top-k {f.top_k}: {first_reason(error)}") from None


def _thinking(text: str | None) -> list[bool] | None:
    if text is None:
        return None
    for part in _split(text):
        _choice("--thinking", part, ("off", "on"))
    return [part == "on" for part in _split(text)] or None


def _choice(flag: str, value: str | None, known: tuple[str, ...]) -> str | None:
    if value is not None and value not in known:
        raise UserError(f"{flag} {value}: not known; choose from {', '.join(known)}")
    return value


def _at_least_one(flag: str, value: int | None, mend: str, also: int = 1) -> int | None:
    if value is not None and value < 1 and value != also:
        raise UserError(f"{flag} {value}: must be at least 1; give a positive number, {mend}")
    return value


def _split(text: str) -> list[str]:
    return [part for part in (p.strip() for p in text.split(",")) if part]


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(v) for v in value]


def _read_file(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--matrix {file}: cannot be read ({error.strerror or error}); give a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--matrix {file}: not valid TOML ({error}); mend the line") from None
    known = [*Matrix.model_fields, CHECKPOINTS]
    for key in values:
        if key not in known:
            raise UserError(f"--matrix {file}: unknown key {key!r}; {nearest(key, known)}")
    return values


def matrix_checkpoints(file: Path) -> dict[str, Path]:
    """The file's [checkpoints]: "dcoco@pair=off" = "folder", relative to the file. They are no part of the matrix:
    a cell says what was asked, its record which weights answered."""
    table = _read_file(file).get(CHECKPOINTS, {})
    if not isinstance(table, dict) or not all(isinstance(folder, str) for folder in table.values()):
        raise UserError(f'--matrix {file}: checkpoints must be a table of "method" = "folder"')
    return {spec: file.parent / Path(folder).expanduser() for spec, folder in table.items()}


def _as_user_error(error: ValidationError, file: Path | None) -> UserError:
    detail = error.errors(include_url=False)[0]
    field = str(detail["loc"][0]) if detail["loc"] else ""
    where = f"{FLAGS.get(field, field)} (or {field} in {file})" if file else FLAGS.get(field, field)
    reason = detail["msg"].removeprefix("Value error, ")
    return UserError(f"{where} {detail.get('input')!r}: {reason}; see `dcoco-bench run --help`")
