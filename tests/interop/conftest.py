from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcoco_bench.cells import Matrix
from tests.report.conftest import write


@pytest.fixture
def write_run_of(tmp_path: Path) -> Callable[..., Path]:
    def make(matrix: Matrix, name: str = "r1", **more: Any) -> Path:
        return write(tmp_path / name, matrix, **more)

    return make
