"""Teacher data on disk: the target's own greedy answers and, beside them, the features a drafter learns from.

    <folder>/teacher.json            the target, taps, sampling, prompt file hash
    <folder>/00000.jsonl             one answer a line: {"prompt": n, "prompt_ids": [...], "output_ids": [...]}
    <folder>/00000.safetensors       "features": bfloat16 [positions, taps*d], the answers' positions end to end

An answer of P prompt and n output tokens has P+n-1 positions: its last token never went through the target.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from dcoco_bench.errors import UserError


@dataclass(frozen=True)
class Answer:
    prompt: int  # line of the prompt file
    domain: str
    prompt_ids: list[int]
    output_ids: list[int]

    @property
    def ids(self) -> list[int]:
        return self.prompt_ids + self.output_ids

    @property
    def positions(self) -> int:
        return len(self.prompt_ids) + len(self.output_ids) - 1


@dataclass(frozen=True)
class TeacherMeta:
    """What the answers and features came from; training refuses a folder made for another target or other taps."""

    backbone: str
    taps: list[int]
    hidden_size: int
    max_tokens: int
    dtype: str
    prompts_sha256: str


def write_shard(folder: Path, number: int, answers: list[Answer], features: list[Tensor]) -> None:
    """Features first, then the answers' file by rename: a shard exists when its .jsonl does."""
    save_file({"features": torch.cat(features)}, folder / f"{number:05d}.safetensors")
    partial = folder / f"{number:05d}.jsonl.part"
    partial.write_text("".join(json.dumps(asdict(answer)) + "\n" for answer in answers))
    partial.rename(folder / f"{number:05d}.jsonl")


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.jsonl"))


def read_answers(shard: Path) -> list[Answer]:
    answers = []
    for number, line in enumerate(shard.read_text().splitlines(), start=1):
        try:
            answers.append(Answer(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise UserError(
                f"{shard}, line {number}: not a teacher answer ({error}); delete the shard and generate again"
            ) from None
    return answers


def read_shard(shard: Path) -> Iterator[tuple[Answer, Tensor]]:
    """Answers with their features [positions, taps*d]; memory-mapped, read when touched."""
    with safe_open(shard.with_suffix(".safetensors"), framework="pt") as stored:
        features = stored.get_tensor("features")
    start = 0
    for answer in read_answers(shard):
        yield answer, features[start : start + answer.positions]
        start += answer.positions


def write_meta(folder: Path, meta: TeacherMeta) -> None:
    """Create the folder's description, or check that it is the same."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "teacher.json"
    if path.exists():
        found = read_meta(folder)
        if found != meta:
            raise UserError(f"{folder} holds teacher data of another setting ({found}); choose a new --out")
        return
    path.write_text(json.dumps(asdict(meta), indent=1) + "\n")


def read_meta(folder: Path) -> TeacherMeta:
    path = folder / "teacher.json"
    try:
        return TeacherMeta(**json.loads(path.read_text()))
    except FileNotFoundError:
        raise UserError(
            f"{folder} is not a teacher data folder (no teacher.json); make one with `dcoco-bench generate`"
        ) from None
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is not readable ({error}); generate the data again into a new folder") from None
