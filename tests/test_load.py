"""The closed loop: never more in flight than asked, fixed order, live answers fed back, failures kept apart."""

from __future__ import annotations

from collections import deque

import pytest

from dcoco_bench.cells import Sampling
from dcoco_bench.engines.base import Finished, Request, Rounds
from dcoco_bench.load import Load, Settings
from dcoco_bench.log import RequestRecord


class CountingEngine:
    """Answers a request after as many polls as its prompt's last token says, with tokens that name the request."""

    def __init__(self) -> None:
        self.time = 0.0
        self.flying: dict[int, tuple[Request, int]] = {}
        self.most = 0
        self.order: list[list[int]] = []

    def now(self) -> float:
        return self.time

    def submit(self, request: Request) -> None:
        self.flying[request.id] = (request, request.prompt_ids[-1])
        self.most = max(self.most, len(self.flying))
        self.order.append(request.prompt_ids)

    def poll(self) -> list[Finished]:
        self.time += 1.0
        done = []
        for key, (request, left) in list(self.flying.items()):
            self.flying[key] = (request, left - 1)
            if left <= 1:
                del self.flying[key]
                failed = request.prompt_ids[0] == 99
                done.append(
                    Finished(
                        key,
                        [] if failed else [request.prompt_ids[0], 7],
                        "error" if failed else "length",
                        self.time - 1,
                        None if failed else self.time,
                        self.time,
                        Rounds([1], [0], [1]),
                        "made to fail" if failed else None,
                    )
                )
        return done

    def tokens_in_flight(self) -> int:
        return 0


class Talk:
    """A conversation whose next prompt holds the answer before it."""

    def __init__(self, index: int, turns: list[list[int]]) -> None:
        self.index, self.prompt_id = index, f"t/{index}"
        self.waiting = deque(turns)
        self.history: list[int] = []

    def next_prompt(self) -> list[int] | None:
        return self.history + self.waiting.popleft() if self.waiting else None

    def answer(self, output_ids: list[int]) -> None:
        self.history = output_ids


def play(talks: list[Talk], concurrency: int, max_context: int = 100) -> tuple[list[RequestRecord], CountingEngine]:
    engine = CountingEngine()
    kept: list[RequestRecord] = []
    settings = Settings(concurrency, 2, max_context, Sampling())
    Load(engine, settings, sink=kept.extend, sha=lambda ids: "x").run(talks)  # type: ignore[arg-type]
    return kept, engine


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_streams_are_full_but_never_more_and_prompts_start_in_order(concurrency: int) -> None:
    talks = [Talk(i, [[i, 1 + i % 3]]) for i in range(8)]
    kept, engine = play(talks, concurrency)
    assert engine.most == concurrency
    assert [ids[0] for ids in engine.order] == list(range(8))
    assert sorted(r.index for r in kept) == list(range(8))
    assert {r.stream for r in kept} == set(range(concurrency))


def test_turns_feed_the_live_answer_back_on_the_same_stream() -> None:
    kept, engine = play([Talk(0, [[40, 1], [41, 1], [42, 1]]), Talk(1, [[50, 5]])], 2)
    assert engine.order[2] == [40, 7, 41, 1]  # the first answer, then the second turn
    assert [(r.turn, r.stream) for r in kept if r.index == 0] == [(0, 0), (1, 0), (2, 0)]


def test_a_failed_turn_ends_its_conversation_and_frees_its_stream() -> None:
    kept, _ = play([Talk(0, [[99, 1], [5, 1]]), Talk(1, [[6, 1]])], 1)
    assert [(r.index, r.finish_reason, r.error) for r in kept] == [(0, "error", "made to fail"), (1, "length", None)]


def test_a_turn_that_does_not_fit_is_a_recorded_failure_not_a_crash() -> None:
    kept, _ = play([Talk(0, [[1] * 50]), Talk(1, [[6, 1]])], 2, max_context=20)
    assert kept[0].error == "50 prompt + 2 output tokens exceed the context of 20"
    assert kept[1].finish_reason == "length"
