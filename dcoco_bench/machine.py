"""What this machine computes fast: the element type that a target should run in here."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

FastDtype = Literal["float32", "bfloat16"]

# Without one of these a CPU emulates bfloat16, about ten times slower than float32.
_BF16_CPU_FEATURES = ("avx512_bf16", "amx_bf16")


@cache
def cpu_features() -> frozenset[str]:
    """The instruction sets of this CPU that matter here, under torch's names."""
    import torch

    if hasattr(torch.cpu, "get_capabilities"):
        return frozenset(name for name, present in torch.cpu.get_capabilities().items() if present is True)
    probes = {
        "avx2": "_is_avx2_supported",
        "avx512_f": "_is_avx512_supported",
        "avx512_bf16": "_is_avx512_bf16_supported",
        "amx_bf16": "_is_amx_tile_supported",
    }
    return frozenset(name for name, probe in probes.items() if getattr(torch.cpu, probe, bool)())


def fast_cpu_dtype() -> FastDtype:
    """`bfloat16` where the CPU multiplies it natively, else `float32`."""
    return "bfloat16" if cpu_features().intersection(_BF16_CPU_FEATURES) else "float32"


def fast_dtype(device: str) -> FastDtype:
    """The fast element type on `device`, a torch device string such as `cpu` or `cuda:0`."""
    return "bfloat16" if device.startswith("cuda") else fast_cpu_dtype()


def default_device() -> str:
    """`cuda` where torch sees a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def usable_cpus() -> int:
    """CPUs that this process may use: smaller than the machine inside a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
