"""Everything about a run that can be checked before anything is measured or written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from dcoco_bench.backbone import Backbone, resolve_backbone
from dcoco_bench.cells import Cell, Matrix
from dcoco_bench.engine_pool import EngineKey
from dcoco_bench.engines.base import Engine
from dcoco_bench.engines.opening import get_engine, parse_engine_args
from dcoco_bench.errors import UserError
from dcoco_bench.method import MethodSpec
from dcoco_bench.preflight import needed_context
from dcoco_bench.prompts import PromptSet, load_suite
from dcoco_bench.provenance import weights_hash
from dcoco_bench.registry import Registry


@contextmanager
def _noting(lacking: list[str] | None, hint: str = "") -> Iterator[None]:
    try:
        yield
    except UserError as error:
        if lacking is None:
            raise
        lacking.append(f"{error}{hint}")


def public_draft(backbone: Backbone, spec: str) -> str:
    """Where others publish the method's draft for this target, as a hint behind an error; else empty."""
    name = backbone.drafts.get(MethodSpec.parse(spec).name)
    return f" (published: {name})" if name else ""


class Plan:
    """A matrix with what its names stand for. `check` raises UserError on the first thing that cannot work."""

    def __init__(
        self,
        matrix: Matrix,
        registry: Registry,
        *,
        checkpoints: Mapping[str, Path] | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self.matrix, self.registry = matrix, registry
        self.kind = get_engine(matrix.engine)
        self._overrides = {registry.canonical(spec): folder for spec, folder in (checkpoints or {}).items()}
        self._data_dir = data_dir
        self._backbones = {name: resolve_backbone(name) for name in matrix.backbones}
        self._tokenizers: dict[str, Any] = {}
        self._prompts: dict[str, PromptSet] = {}
        self._contexts: dict[str, int] = {}

    @cached_property
    def cells(self) -> list[Cell]:
        """In the matrix's order, where methods alternate; an engine's cells together where only one may be open."""
        cells = self.matrix.cells()
        if self.kind.keep_open > 1:
            return cells
        order = list(dict.fromkeys(EngineKey.of(cell) for cell in cells))
        return sorted(cells, key=lambda cell: order.index(EngineKey.of(cell)))

    def check(self, lacking: list[str] | None = None) -> None:
        """Names, parameters, checkpoints, thinking modes, prompts, and that every prompt fits with its answers.

        With `lacking`, for a run that is planned for another machine: weights and tokenizers that are not here are
        named there instead of being an error.
        """
        for named in self._overrides:
            self.registry.checkpoint_for(named, "", self._overrides)
        for text in self.matrix.methods:
            spec = MethodSpec.parse(text)
            method = self.registry.get_method(spec.name)
            self.kind.check(method, spec.resolve(method.params), parse_engine_args(self.matrix.engine_args))
        for backbone in self._backbones.values():
            for mode in self.matrix.thinking:
                if ("on" if mode else "off") not in backbone.thinking:
                    raise UserError(
                        f"--thinking {'on' if mode else 'off'}: backbone {backbone.name!r} has no such mode; "
                        f"use --thinking {backbone.thinking[0]}"
                    )
            for text in self.matrix.methods:
                with _noting(lacking, public_draft(backbone, text)):
                    self.checkpoint(backbone, text)
        for suite in self.matrix.suites:
            self.prompts(suite)
        for name in self._backbones:
            with _noting(lacking):
                self.max_context(name)

    def backbone(self, name: str) -> Backbone:
        return self._backbones[name]

    def prompts(self, suite: str) -> PromptSet:
        """The same prompts in the same order for every backbone, method and level."""
        if suite not in self._prompts:
            self._prompts[suite] = load_suite(
                suite,
                num_prompts=self.matrix.num_prompts,
                data_dir=self._data_dir,
                extra_dirs=self.registry.suite_dirs,
            )
        return self._prompts[suite]

    def tokenizer(self, backbone: str) -> Any:
        if backbone not in self._tokenizers:
            self._tokenizers[backbone] = self.kind.tokenizer(self._backbones[backbone])
        return self._tokenizers[backbone]

    def max_context(self, backbone: str) -> int:
        """Tokens the engines of this backbone must hold: one figure for all methods, so that all get the same cache."""
        if backbone not in self._contexts:
            limit = self._backbones[backbone].context_length
            self._contexts[backbone] = max(
                needed_context(
                    self.prompts(suite),
                    self.tokenizer(backbone),
                    thinking,
                    self.matrix.turns,
                    self.matrix.max_tokens,
                    limit,
                )
                for suite in self.matrix.suites
                for thinking in self.matrix.thinking
            )
        return self._contexts[backbone]

    def checkpoint(self, backbone: Backbone, spec: str) -> Path | None:
        if not self.kind.needs_weights:
            return None
        return self.registry.checkpoint_for(spec, backbone.label, self._overrides)

    def checkpoint_hash(self, cell: Cell) -> str | None:
        folder = self.checkpoint(self._backbones[cell.backbone], cell.method)
        return weights_hash(folder) if folder else None

    def fingerprint(self) -> dict[str, dict[str, str]]:
        """What must not change between a run and its resume, beside the matrix."""
        suites = {name: self.prompts(name).record().prompt_hash for name in self.matrix.suites}
        checkpoints = {}
        for backbone in self._backbones.values():
            for spec in self.matrix.methods:
                folder = self.checkpoint(backbone, spec)
                if folder:
                    checkpoints[f"{spec} for {backbone.label}"] = weights_hash(folder)
        return {"suites": suites, "checkpoints": checkpoints}

    def open_engine(self, cell: Cell, log_dir: Path) -> Engine:
        """`log_dir` is for what a server of the engine writes."""
        spec = MethodSpec.parse(cell.method)
        method, backbone = self.registry.get_method(spec.name), self._backbones[cell.backbone]
        return self.kind.opener()(
            backbone,
            method,
            spec.resolve(method.params),
            self.checkpoint(backbone, cell.method),
            dtype=cell.dtype,
            seed=cell.seed,
            max_concurrency=max(self.matrix.concurrency),
            max_context=self.max_context(cell.backbone),
            record_candidates=cell.record_candidates,
            engine_args=parse_engine_args(cell.engine_args),
            log_dir=log_dir,
        )
