"""`generate`: the target answers the training prompts greedily, many at a time, keeping its features."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dcoco_bench.cells import Sampling
from dcoco_bench.engines.base import Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.training.recorder import FeatureRecorder
from dcoco_bench.training.teacher import Answer, read_answers, shards, write_shard

ANSWERS_PER_SHARD = 128
# Evaluation suites ask math questions in this form; the target should learn to be followed in its own style there.
BOXED = "\nPlease reason step by step, and put your final answer within \\boxed{}."


def read_prompts(path: Path) -> list[dict[str, str]]:
    """Rows {"prompt", "domain"} of a .jsonl or .jsonl.gz file. Raises UserError with the line of a broken row."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    rows = []
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = json.loads(line)
                    rows.append({"prompt": str(row["prompt"]), "domain": str(row.get("domain", "general"))})
                except (ValueError, KeyError, TypeError) as error:
                    raise UserError(
                        f'{path}, line {number}: not {{"prompt", "domain"}} ({error!r}); fix the row'
                    ) from None
    except OSError as error:
        raise UserError(f"training prompts {path}: {error.strerror}; give a .jsonl or .jsonl.gz file") from None
    return rows


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def message(row: dict[str, str]) -> str:
    return row["prompt"] + (BOXED if row["domain"] == "math" else "")


def generate(
    target: Target,
    render: Callable[[str], list[int]],
    prompts: list[dict[str, str]],
    folder: Path,
    *,
    taps: tuple[int, ...],
    stop_ids: frozenset[int],
    concurrency: int,
    max_tokens: int,
    max_prompt: int,
    count: int,
    part: tuple[int, int] = (0, 1),
) -> Iterator[tuple[int, int]]:
    """Answer prompts until `count` answers are on disk; yields (answers, tokens) done as it goes.

    Resumes: prompts that a finished shard holds are skipped. Prompts over `max_prompt` tokens are left out.
    `part` (i, n): this worker's prompts and shards are the i-th of every n; n workers fill one folder together,
    `count` being each worker's own.
    """
    worker, workers = part
    mine = [shard for shard in shards(folder) if int(shard.stem) % workers == worker]
    done = [answer for shard in mine for answer in read_answers(shard)]
    held = {answer.prompt for answer in done}
    answered, tokens = len(done), sum(len(a.output_ids) for a in done)
    number = max((int(shard.stem) + workers for shard in mine), default=worker)
    recorder = FeatureRecorder(taps)
    engine = TorchEngine(
        target, recorder, stop_ids=stop_ids, max_concurrency=concurrency, max_context=max_prompt + max_tokens
    )
    queue = ((n, render(message(row))) for n, row in enumerate(prompts) if n % workers == worker and n not in held)
    fitting = ((n, ids) for n, ids in queue if len(ids) <= max_prompt)
    in_flight: dict[int, list[int]] = {}
    buffer: list[tuple[Answer, Any]] = []

    while answered < count:
        while len(in_flight) < min(concurrency, count - answered) and (item := next(fitting, None)):
            in_flight[item[0]] = item[1]
            engine.submit(Request(item[0], item[1], max_tokens, Sampling()))
        if not in_flight:
            break
        for finished, features in zip(engine.poll(), recorder.take(), strict=True):
            domain = prompts[finished.id]["domain"]
            buffer.append((Answer(finished.id, domain, in_flight.pop(finished.id), finished.output_ids), features))
            answered += 1
            tokens += len(finished.output_ids)
        if len(buffer) >= ANSWERS_PER_SHARD or answered >= count:
            write_shard(folder, number, [a for a, _ in buffer], [f for _, f in buffer])
            number, buffer = number + workers, []
        yield answered, tokens + engine.tokens_in_flight()
    if buffer:
        write_shard(folder, number, [a for a, _ in buffer], [f for _, f in buffer])
