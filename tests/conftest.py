"""Fixtures for every test. Nothing here or in any test reaches a model hub."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything imports huggingface_hub, which reads it once

from dcoco_bench import embedded
from dcoco_bench.errors import UserError


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of the embedded model, prepared by the first test that asks for it (half a minute, then cached)."""
    try:
        return embedded.prepare()
    except UserError as error:
        pytest.fail(str(error), pytrace=False)
