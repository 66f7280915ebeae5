"""`score`: the answers of every finished cell of a run whose suite has references; `scores.json` beside its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from dcoco_bench.backbone import load_tokenizer, resolve_backbone
from dcoco_bench.errors import UserError
from dcoco_bench.log import RequestRecord, ScoreRecord
from dcoco_bench.log_read import CellFolder, read_run
from dcoco_bench.log_store import write_scores
from dcoco_bench.prompts import PromptSet, list_suites, load_suite
from dcoco_bench.prompts.suite import EXACT
from dcoco_bench.scoring.answers import boxed, equivalent

Decode = Callable[[list[int]], str]


def score_run(path: Path, *, data_dir: Path | None = None, extra_dirs: tuple[Path, ...] = ()) -> list[ScoreRecord]:
    """Score what can be scored, and write it. Raises UserError when nothing can, or an answer key is missing."""
    run = read_run(path)
    suites: dict[str, PromptSet] = {}
    decoders: dict[str, Decode] = {}
    found = []
    for folder in run.cells:
        if folder.record is None or not folder.finished:
            continue
        cell = folder.record.cell
        if cell.suite not in suites:
            suites[cell.suite] = load_suite(cell.suite, data_dir=data_dir, extra_dirs=extra_dirs)
        if suites[cell.suite].suite.reference not in EXACT:
            continue
        if cell.backbone not in decoders:
            decoders[cell.backbone] = _decoder(cell.backbone)
        found.append(_score(folder, suites[cell.suite], decoders[cell.backbone]))
        write_scores(path, found[-1])
    if not found:
        known = ", ".join(suite.name for suite in list_suites(extra_dirs) if suite.reference in EXACT)
        raise UserError(f"{path}: no finished cell of a suite with exact answers; run one of: {known}")
    return found


def _decoder(backbone: str) -> Decode:
    tokenizer = load_tokenizer(resolve_backbone(backbone))
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True))


def _score(folder: CellFolder, prompts: PromptSet, decode: Decode) -> ScoreRecord:
    key = {p.id: p.answer for p in prompts.prompts if p.answer}
    graded = [r for r in folder.requests if r.error is None and r.output_tokens is None]
    if lost := sorted({r.prompt_id for r in graded} - key.keys()):
        raise UserError(
            f"suite {prompts.suite.name!r} ({prompts.origin}): no reference answer for {lost[0]!r} and "
            f"{len(lost) - 1} more; give the folder with its refs/ that the run used, with --data-dir"
        )
    grades = grade(graded, key, decode)
    return ScoreRecord(id=folder.id, grader=f"math-verify {version('math-verify')}", grades=grades)


def grade(requests: list[RequestRecord], key: Mapping[str, str], decode: Decode) -> dict[int, bool | None]:
    """By place of the prompt: right, wrong, or None where the answer gives no final answer. The last turn counts."""
    last: dict[int, RequestRecord] = {}
    for request in requests:
        if request.turn >= last.get(request.index, request).turn:
            last[request.index] = request
    known: dict[tuple[str, str], bool] = {}  # the same answer comes from many cells' streams

    def verdict(request: RequestRecord) -> bool | None:
        answer = boxed(decode(request.output_ids))
        if answer is None:
            return None
        pair = (answer, key[request.prompt_id])
        if pair not in known:
            known[pair] = equivalent(*pair)
        return known[pair]

    return {index: verdict(request) for index, request in sorted(last.items())}
