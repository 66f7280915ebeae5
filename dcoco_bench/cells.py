"""Cells: one measurement, fully described. Everything that changes an answer or a time is in the cell."""

from __future__ import annotations

import hashlib
import json
from itertools import product
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Turns = Literal["all", "first"]
PositiveInt = Annotated[int, Field(ge=1)]


class Frozen(BaseModel):
    """Immutable, strict about unknown keys: a typo in a matrix file is an error, not a silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sampling(Frozen):
    """The processed target distribution: temperature, then top-k, then top-p. Always sent explicitly."""

    temperature: float = Field(default=0.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)  # 0 = off

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @model_validator(mode="after")
    def _no_contradiction(self) -> Sampling:
        if self.temperature > 0 and self.top_k == 1:
            raise ValueError(
                f"temperature {self.temperature:g} with top-k 1 is greedy decoding under another name; "
                "use --temperature 0, or drop --top-k 1"
            )
        return self


class Cell(Frozen):
    """One (backbone, method, suite, load, sampling) point on one engine.

    `method` is the canonical spec string, parameters sorted: ``dcoco@k=8,select=global-sum``.
    """

    engine: str
    backbone: str
    method: str
    suite: str
    concurrency: PositiveInt
    sampling: Sampling = Sampling()
    thinking: bool = False
    turns: Turns = "all"
    seed: int = 0
    num_prompts: PositiveInt | None = None  # None = the whole suite
    max_tokens: PositiveInt = 256
    dtype: str = "float32"
    record_candidates: bool = False
    engine_args: tuple[str, ...] = ()

    def canonical(self) -> str:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def id(self) -> str:
        """12 hex digits of the SHA-256 of the canonical form."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        mode = " thinking" if self.thinking else ""
        return f"{self.suite} {self.method} c={self.concurrency} T={self.sampling.temperature:g} s={self.seed}{mode}"


class Matrix(Frozen):
    """Axes whose product is a run's cells; also the schema of a matrix TOML file."""

    engine: str = "torch"
    backbones: tuple[str, ...] = ("smollm2-135m",)
    methods: tuple[str, ...]
    suites: tuple[str, ...]
    concurrency: tuple[PositiveInt, ...] = (1,)
    samplings: tuple[Sampling, ...] = (Sampling(),)
    thinking: tuple[bool, ...] = (False,)
    seeds: tuple[int, ...] = (0,)
    turns: Turns = "all"
    num_prompts: PositiveInt | None = None
    max_tokens: PositiveInt = 256
    dtype: str = "float32"
    record_candidates: bool = False
    engine_args: tuple[str, ...] = ()

    @field_validator("backbones", "methods", "suites", "concurrency", "samplings", "thinking", "seeds")
    @classmethod
    def _axis(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        if not values:
            raise ValueError("is empty; give at least one value")
        return tuple(dict.fromkeys(values))

    def cells(self) -> list[Cell]:
        """Ordered so that an engine is opened once per (backbone, method) and cells to compare are close in time."""
        shared = {
            "engine": self.engine,
            "turns": self.turns,
            "num_prompts": self.num_prompts,
            "max_tokens": self.max_tokens,
            "dtype": self.dtype,
            "record_candidates": self.record_candidates,
            "engine_args": self.engine_args,
        }
        axes = product(
            self.backbones, self.suites, self.thinking, self.concurrency, self.samplings, self.seeds, self.methods
        )
        return [
            Cell(backbone=b, suite=s, thinking=th, concurrency=c, sampling=sa, seed=se, method=m, **shared)  # type: ignore[arg-type]
            for b, s, th, c, sa, se, m in axes
            # Greedy decoding does not depend on the seed: one cell stands for all seeds.
            if not (sa.greedy and se != self.seeds[0])
        ]
