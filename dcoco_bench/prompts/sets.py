"""Prompts of a suite, with where they came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dcoco_bench.log import SuiteRecord
from dcoco_bench.prompts.suite import Suite

Origin = Literal["data", "hub", "sample"]


@dataclass(frozen=True)
class Prompt:
    id: str
    turns: tuple[str, ...]
    category: str
    answer: str | None = None  # the reference, of suites whose answers can be held against one


@dataclass(frozen=True)
class PromptSet:
    """The prompts to decode, in order. `origin` "sample" = our own few prompts, never to be reported as the suite."""

    suite: Suite
    prompts: tuple[Prompt, ...]
    origin: Origin
    available: int  # prompts in the source
    asked: int | None = None  # None = all
    fell_through: tuple[str, ...] = ()  # why better sources were not used, one reason a source

    @property
    def too_few(self) -> bool:
        """More prompts were asked for than the source holds: these are all of them."""
        return self.asked is not None and self.asked > self.available

    @cached_property
    def prompt_hash(self) -> str:
        return prompt_hash(self.prompts)

    def record(self) -> SuiteRecord:
        return SuiteRecord(
            name=self.suite.name,
            version=self.suite.version,
            origin=self.origin,
            prompt_hash=self.prompt_hash,
            category=self.suite.category,
            prompts=len(self.prompts),
        )

    def __len__(self) -> int:
        return len(self.prompts)


def prompt_hash(prompts: Sequence[Prompt]) -> str:
    """First 16 hex digits of the SHA-256 over ids and turns, in order."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps([prompt.id, *prompt.turns]).encode() + b"\n")
    return digest.hexdigest()[:16]
