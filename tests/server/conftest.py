"""Runs on a real vLLM server with the embedded model and the committed drafts. They need an environment with vLLM:

make test-vllm
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("vllm") is None:  # the ordinary environment; `make test-vllm` has its own
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")
