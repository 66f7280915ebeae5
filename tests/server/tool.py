"""The tool as a user runs it, on a small machine without a hub: for the tests on a real vLLM server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dcoco_bench.errors import UserError
from dcoco_bench.log_read import Run, read_run
from dcoco_bench.method import MethodSpec
from dcoco_bench.registry import Registry

BACKBONE = "smollm2-135m"
SHARED = ("--suite", "gsm8k", "--num-prompts", "3", "--max-tokens", "24", "--dtype", "float32", "--conc", "2")
ON_CPU = (  # a small machine: one thread, no compilation, no hub
    *("--engine", "vllm", "--engine-arg", "enforce-eager=true"),
    *("--engine-arg", "env.VLLM_CPU_OMP_THREADS_BIND=nobind"),
)
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "DCOCO_BENCH_DATA"} | ENVIRONMENT


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "dcoco_bench.cli", *map(str, arguments)]


def dcoco_bench(*arguments: str | Path) -> str:
    """The tool as a user runs it. Returns what it printed; fails the test with it when it fails."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def run(folder: Path, name: str, *arguments: str | Path) -> Run:
    dcoco_bench("run", "--result-dir", folder, "--run-name", name, *SHARED, *arguments)
    return read_run(folder / name)


def served_methods() -> list[str]:
    """The baseline, and every drafter with a committed draft for the embedded target and a way into vLLM."""
    registry, found = Registry(), []
    for name in registry.methods_with_checkpoint(BACKBONE):
        method = registry.get_method(name)
        try:
            method.vllm_draft(registry.checkpoint_for(name, BACKBONE), MethodSpec.parse(name).resolve(method.params))
        except UserError:
            continue  # it says that it is not served there
        found.append(name)
    return found
