"""What a run may lose against its baseline before the gate fails."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from dcoco_bench.errors import UserError, nearest


@dataclass(frozen=True)
class Limits:
    """Shares, 0.05 = 5 %. Speed and tau are ratios to the baseline; the other two are shares of prompts."""

    max_tps_drop: float = 0.05
    max_tau_drop: float = 0.02
    max_mismatch: float = 0.0  # greedy answers that differ from the baseline's
    max_failures: float = 0.0  # prompts without an answer

    @classmethod
    def read(cls, path: Path) -> Limits:
        """A TOML file with the same names. Raises UserError that names the file and the key."""
        try:
            said = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"--limits {path}: {error.strerror}; give a TOML file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"--limits {path}: not TOML ({error}); mend it") from None
        return cls().with_values({key: str(value) for key, value in said.items()}, f"--limits {path}: ")

    def with_values(self, said: dict[str, str], where: str = "") -> Limits:
        known = [field.name for field in fields(self)]
        for key in said:
            if key not in known:
                raise UserError(f"{where}unknown limit {key!r}; {nearest(key, known)}")
        return replace(self, **{key: share(value, f"{where}{key}") for key, value in said.items()})


def share(text: str, name: str) -> float:
    """`5%` or `0.05` → 0.05. Raises UserError outside 0 … 1."""
    stripped = text.strip()
    try:
        value = float(stripped.removesuffix("%")) / (100 if stripped.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UserError(f"{name} {text!r}: must be a share from 0 to 1, or e.g. 5%")
    return value
