"""The embedded engine against transformers' own generate, and drafting against not drafting."""

from __future__ import annotations

import pytest
import torch

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.base import Finished, Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import Target
from tests.tiny import CONFIGS, VOCAB, backbone, raw_target, target_model

PROMPTS = [[3, 9, 27, 5], [8, 8, 1], [44, 2, 17, 60, 31, 12, 7], [5], [12, 13, 14, 15, 16], [59, 1, 3]]


def decode(
    kind: str, concurrency: int, *, layout: Layout | None = None, tokens: int = 40, **options: object
) -> list[Finished]:
    target = Target(target_model(kind))
    drafter = layout and BlockDrafter(backbone(layout), Vocabulary.full(VOCAB), target.embedding, target.head)
    engine = TorchEngine(
        target,
        drafter,
        stop_ids=frozenset({0}),
        max_concurrency=concurrency,
        max_context=64,
        **options,  # type: ignore[arg-type]
    )
    waiting = [Request(i, ids, tokens, Sampling()) for i, ids in enumerate(PROMPTS)]
    done: list[Finished] = []
    in_flight = 0
    while waiting or in_flight:
        while waiting and in_flight < concurrency:
            engine.submit(waiting.pop(0))
            in_flight += 1
        finished = engine.poll()
        done += finished
        in_flight -= len(finished)
    return sorted(done, key=lambda f: f.id)


@pytest.mark.parametrize("kind", list(CONFIGS))
@pytest.mark.parametrize("concurrency", [1, 4])
def test_vanilla_equals_generate_token_for_token(kind: str, concurrency: int) -> None:
    model = raw_target(kind)
    for prompt, finished in zip(PROMPTS, decode(kind, concurrency), strict=True):
        with torch.inference_mode():
            whole = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False)
        assert finished.output_ids == whole[0, len(prompt) :].tolist()
        assert finished.finish_reason == ("stop" if finished.output_ids[-1] == 0 else "length")


@pytest.mark.parametrize("kind", list(CONFIGS))
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("concurrency", [1, 4])
def test_drafting_changes_no_token(kind: str, layout: Layout, concurrency: int) -> None:
    plain = decode(kind, 1)
    drafted = decode(kind, concurrency, layout=layout)
    assert [f.output_ids for f in drafted] == [f.output_ids for f in plain]


def test_counts_add_up_to_the_tokens_delivered() -> None:
    for finished in decode("llama", 4, layout=Layout.FILL_IN):
        assert finished.rounds is not None
        assert len(finished.output_ids) == 1 + sum(finished.rounds.delivered)
        rounds = zip(finished.rounds.drafted, finished.rounds.accepted, finished.rounds.delivered, strict=True)
        assert all(0 <= a <= d <= 5 and 1 <= got <= a + 1 for d, a, got in rounds)
        assert finished.start <= finished.first_token <= finished.end  # type: ignore[operator]


def test_an_oracle_drafter_is_accepted_whole_and_cut_at_the_limit() -> None:
    """A drafter that knows the answer: every round accepts all, and the last one is cut where the answer ends."""
    plain = {tuple(p): f.output_ids for p, f in zip(PROMPTS, decode("llama", 1), strict=True)}
    answers = {(len(p), o[0]): o for p, o in plain.items()}

    class Oracle(BlockDrafter):
        def propose(self, lo, anchors, positions, *rest):  # type: ignore[no-untyped-def]
            proposal = super().propose(lo, anchors, positions, *rest)
            rows = [self.answer[int(t) - self.start :][1:6] for t in positions]
            return proposal._replace(tokens=torch.tensor([r + [0] * (5 - len(r)) for r in rows]))

    target = Target(target_model("llama"))
    oracle = Oracle(backbone(), Vocabulary.full(VOCAB), target.embedding, target.head)
    engine = TorchEngine(target, oracle, stop_ids=frozenset({0}), max_concurrency=1, max_context=64)
    for prompt in PROMPTS:
        oracle.start, oracle.answer = len(prompt), plain[tuple(prompt)]  # type: ignore[attr-defined]
        engine.submit(Request(0, prompt, 40, Sampling()))
        done: list[Finished] = []
        while not done:
            done = engine.poll()
        (finished,) = done
        assert finished.output_ids == oracle.answer  # type: ignore[attr-defined]
        assert finished.rounds is not None
        assert all(got == 6 for got in finished.rounds.delivered[:-1])
    assert answers


def test_recorded_candidates_and_margins_line_up() -> None:
    for finished in decode("llama", 4, layout=Layout.FILL_IN, record_candidates=True):
        assert finished.rounds is not None
        assert finished.candidates is not None
        assert finished.margins is not None
        assert len(finished.candidates) == sum(d > 0 for d in finished.rounds.drafted)
        assert all(len(slots) == 5 and len(slots[0]) == 16 for slots in finished.candidates)
        assert len(finished.margins) == len(finished.output_ids)
        assert min(finished.margins) >= 0
