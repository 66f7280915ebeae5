"""`--record-candidates` inside vLLM: the plug-in writes each draft down, here it finds its way to its request's rounds.

The hook in the server sees positions and anchors, not requests. A round is found again by its anchor's position, its
anchor, and drafts that fit what was delivered: accepted ones equal the output, the first rejected one differs. Where
two streams fit, the passes tell: a stream that decodes is in every pass, so its rounds stand in successive ones.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from dcoco_bench.engines.base import Rounds

VARIABLE = "DCOCO_BENCH_CANDIDATES"  # the server's environment: the file that its plug-in appends to


class Draft(NamedTuple):
    number: int  # of the pass
    tokens: list[int]  # [N]
    candidates: list[list[int]]  # [N][K], best first


class CandidateFile:
    """One line a drafting pass: positions, anchors, tokens and candidates of all its requests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0  # bytes
        self._passes = 0
        self._drafts: dict[tuple[int, int], list[Draft]] = defaultdict(list)  # by (position, anchor)

    def of(self, prompt_tokens: int, output: list[int], rounds: Rounds | None) -> list[list[list[int]]] | None:
        """Candidates [round][slot][k] of a finished answer; None where its rounds cannot be told from another's."""
        if rounds is None:
            return None
        self._catch_up()
        fitting: list[dict[int, Draft]] = []  # of every round, by pass
        at = 0  # the anchor's place in the output
        for drafted, accepted, delivered in zip(rounds.drafted, rounds.accepted, rounds.delivered, strict=True):
            if drafted:
                following = output[at + 1 : at + 1 + delivered]
                drafts = self._drafts.get((prompt_tokens + at, output[at]), [])
                fitting.append(_by_pass([d for d in drafts if _fits(d.tokens, accepted, following)]))
            at += delivered
        return _only_chain(fitting)

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
            self._drafts[key].append(Draft(self._passes, tokens, candidates))
        self._passes += 1


def _by_pass(drafts: list[Draft]) -> dict[int, Draft]:
    """Without the passes in which two streams stood at one place and drafted differently."""
    found = {d.number: d for d in drafts}
    return {n: d for n, d in found.items() if all(o.candidates == d.candidates for o in drafts if o.number == n)}


def _only_chain(fitting: list[dict[int, Draft]]) -> list[list[list[int]]] | None:
    """The one way through the rounds in successive passes; [] of no round, None of no way or several."""
    if not fitting:
        return []
    starts = [n for n in fitting[0] if all(n + i in drafts for i, drafts in enumerate(fitting))]
    if len(starts) != 1:
        return None
    return [drafts[starts[0] + i].candidates for i, drafts in enumerate(fitting)]


def _fits(tokens: list[int], accepted: int, following: list[int]) -> bool:
    kept = min(accepted, len(following))
    if tokens[:kept] != following[:kept]:
        return False
    rejected = accepted < len(tokens) and accepted < len(following)
    return not rejected or tokens[accepted] != following[accepted]
