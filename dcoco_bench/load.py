"""Closed-loop load: C streams over a fixed list of conversations, in fixed order, each refilled when it is done.

A conversation keeps its stream: its next turn starts when the answer to the last one has come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dcoco_bench.cells import Sampling
from dcoco_bench.engines.base import Engine, Finished, Request, engine_now
from dcoco_bench.log import RequestRecord, RoundCounts

TURNS = 1 << 10  # request id = place of the prompt × TURNS + turn: the same in every cell, stream and segment


class Dialogue(Protocol):
    """One prompt being played. `prompts.Conversation` is the real one."""

    prompt_id: str
    index: int

    def next_prompt(self) -> list[int] | None:
        """Token ids of the next turn's prompt, all before it included; None when all turns were played."""

    def answer(self, output_ids: list[int]) -> None:
        """Add the target's answer to the history."""


@dataclass(frozen=True)
class Settings:
    """What every request of a load shares."""

    concurrency: int
    max_tokens: int
    max_context: int
    sampling: Sampling
    seed: int = 0
    segment: int = 0


@dataclass
class _InFlight:
    dialogue: Dialogue
    turn: int
    stream: int
    prompt_ids: list[int]
    submitted: float


class Load:
    """Plays dialogues on an engine. `run` may be called once; times are seconds since its first submit."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        sink: Callable[[list[RequestRecord]], None],
        tick: Callable[[int], None] = lambda in_flight: None,
        sha: Callable[[Sequence[int]], str],
        retries: Callable[[int], int] = lambda index: 0,
    ) -> None:
        """`sink` gets what finished together and must keep it before it returns; `tick` gets the tokens in flight."""
        self.engine, self.settings = engine, settings
        self._sink, self._tick, self._sha, self._retries = sink, tick, sha, retries
        self._flying: dict[int, _InFlight] = {}
        self._free: deque[int] = deque()
        self._origin = 0.0
        self._last_end = 0.0

    @property
    def wall(self) -> float:
        """Seconds from the first submit to the last finish so far."""
        return self._last_end

    def run(self, dialogues: Iterable[Dialogue]) -> None:
        """Returns when every dialogue has ended. An exception of the engine passes through; what finished is kept."""
        waiting = deque(dialogues)
        self._free.extend(range(min(self.settings.concurrency, len(waiting))))
        self._origin = engine_now(self.engine)
        while waiting or self._flying:
            while self._free and waiting:
                self._begin(waiting.popleft(), 0, self._free.popleft())
            if not self._flying:
                continue  # none of them fitted
            done = [(self._flying.pop(f.id), f) for f in self.engine.poll()]
            self._keep([self._record(flying, f) for flying, f in done])
            for flying, finished in done:
                self._go_on(flying, finished)
            self._tick(self.engine.tokens_in_flight())

    def _begin(self, dialogue: Dialogue, turn: int, stream: int) -> None:
        """Submit the dialogue's next turn, or give its stream back when it has none or the turn does not fit."""
        prompt_ids = dialogue.next_prompt()
        if prompt_ids is None:
            self._free.append(stream)
            return
        s, now = self.settings, engine_now(self.engine)
        flying = _InFlight(dialogue, turn, stream, prompt_ids, now)
        if len(prompt_ids) + s.max_tokens > s.max_context:
            reason = f"{len(prompt_ids)} prompt + {s.max_tokens} output tokens exceed the context of {s.max_context}"
            self._keep([self._record(flying, Finished(0, [], "error", now, None, now, error=reason))])
            self._free.append(stream)
            return
        request_id = dialogue.index * TURNS + turn
        self._flying[request_id] = flying
        self.engine.submit(Request(request_id, prompt_ids, s.max_tokens, s.sampling, s.seed))

    def _go_on(self, flying: _InFlight, finished: Finished) -> None:
        """The next turn on the same stream. A failed turn ends its conversation: what would follow has no history."""
        if finished.finish_reason == "error" or finished.error is not None:
            self._free.append(flying.stream)
            return
        flying.dialogue.answer(finished.output_ids)
        self._begin(flying.dialogue, flying.turn + 1, flying.stream)

    def _keep(self, records: list[RequestRecord]) -> None:
        if records:
            self._last_end = max(self._last_end, *(r.end for r in records))
            self._sink(records)

    def _record(self, flying: _InFlight, f: Finished) -> RequestRecord:
        rounds = f.rounds
        return RequestRecord(
            index=flying.dialogue.index,
            turn=flying.turn,
            prompt_id=flying.dialogue.prompt_id,
            prompt_sha=self._sha(flying.prompt_ids),
            prompt_tokens=len(flying.prompt_ids),
            segment=self.settings.segment,
            stream=flying.stream,
            start=flying.submitted - self._origin,  # the user's wait starts at the send, queueing included
            first_token=None if f.first_token is None else f.first_token - self._origin,
            end=f.end - self._origin,
            output_ids=f.output_ids,
            finish_reason=f.finish_reason,
            error=f.error,
            rounds=RoundCounts(drafted=rounds.drafted, accepted=rounds.accepted, delivered=rounds.delivered)
            if rounds
            else None,
            candidates=f.candidates,
            margins=f.margins,
            chunks=None if f.chunks is None else [(n, round(t - self._origin, 6)) for n, t in f.chunks],
            retries=self._retries(flying.dialogue.index),
        )
