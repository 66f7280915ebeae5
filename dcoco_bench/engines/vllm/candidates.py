"""`--record-candidates` inside vLLM: the plug-in writes each draft down, here it finds its way to its request's rounds.

The hook in the server sees positions and anchors, not requests. A round is found again by its anchor's position, its
anchor, and drafts that fit what was delivered: accepted ones equal the output, the first rejected one differs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from dcoco_bench.engines.base import Rounds

VARIABLE = "DCOCO_BENCH_CANDIDATES"  # the server's environment: the file that its plug-in appends to


class Draft(NamedTuple):
    tokens: list[int]  # [N]
    candidates: list[list[int]]  # [N][K], best first


class CandidateFile:
    """One line a drafting pass: positions, anchors, tokens and candidates of all its requests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0  # bytes
        self._drafts: dict[tuple[int, int], list[Draft]] = defaultdict(list)  # by (position, anchor)

    def of(self, prompt_tokens: int, output: list[int], rounds: Rounds | None) -> list[list[list[int]]] | None:
        """Candidates [round][slot][k] of a finished answer; None where a round cannot be told from another's."""
        if rounds is None:
            return None
        self._catch_up()
        found: list[list[list[int]]] = []
        at = 0  # the anchor's place in the output
        for drafted, accepted, delivered in zip(rounds.drafted, rounds.accepted, rounds.delivered, strict=True):
            if not drafted:
                at += delivered
                continue
            following = output[at + 1 : at + 1 + delivered]
            drafts = self._drafts.get((prompt_tokens + at, output[at]), [])
            fitting = {json.dumps(d.candidates): d for d in drafts if _fits(d.tokens, accepted, following)}
            if len(fitting) != 1:  # none, or two streams at one position that drafted differently
                return None
            found.append(next(iter(fitting.values())).candidates)
            at += delivered
        return found

    def _catch_up(self) -> None:
        """Whole lines only: the server may be writing the next one."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, drafted: dict[str, Any]) -> None:
        keys = zip(drafted["positions"], drafted["anchors"], strict=True)
        for key, tokens, candidates in zip(keys, drafted["tokens"], drafted["candidates"], strict=True):
            self._drafts[key].append(Draft(tokens, candidates))


def _fits(tokens: list[int], accepted: int, following: list[int]) -> bool:
    kept = min(accepted, len(following))
    if tokens[:kept] != following[:kept]:
        return False
    rejected = accepted < len(tokens) and accepted < len(following)
    return not rejected or tokens[accepted] != following[accepted]
