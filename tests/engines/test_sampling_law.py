"""At T=1 the engine's output follows the target exactly, drafted or not; a wrong rule is caught by the same test."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from scipy.stats import chisquare

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.verify import Verdict, draw, target_distribution, uniforms
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.base import Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import Target
from tests.tiny import HIDDEN, backbone, raw_target, target_model

SMALL = 7  # vocabulary: every two-token continuation can be enumerated
PROMPT = [3, 5, 1, 4]
SAMPLING = Sampling(temperature=1.0, top_p=0.95)
REQUESTS = 3000


def _exact_third_token() -> torch.Tensor:
    """Marginal law of the third output token, by enumeration of the first two. [SMALL]."""
    model = raw_target(vocab_size=SMALL)
    pairs = torch.tensor(list(product(range(SMALL), repeat=2)))
    ids = torch.cat([torch.tensor([PROMPT]).expand(len(pairs), -1), pairs], dim=1)
    with torch.inference_mode():
        laws = target_distribution(model(ids).logits[:, -3:], SAMPLING)
    first = laws[torch.arange(len(pairs)), 0, pairs[:, 0]]
    second = laws[torch.arange(len(pairs)), 1, pairs[:, 1]]
    return ((first * second)[:, None] * laws[:, 2]).sum(0)


def _sampled_third_token(drafted: bool) -> torch.Tensor:
    """Counts [SMALL] over many requests, decoded as a batch with refill."""
    target = Target(target_model(vocab_size=SMALL))
    net = backbone(vocab_size=SMALL)
    drafter = BlockDrafter(net, Vocabulary.full(SMALL), target.embedding, target.head) if drafted else None
    engine = TorchEngine(target, drafter, stop_ids=frozenset(), max_concurrency=64, max_context=16)
    counts = torch.zeros(SMALL, dtype=torch.long)
    for number in range(REQUESTS):
        engine.submit(Request(number, PROMPT, 6, SAMPLING, seed=1))
    done = 0
    while done < REQUESTS:
        for finished in engine.poll():
            counts[finished.output_ids[2]] += 1
            done += 1
    return counts


def _p_value(counts: torch.Tensor) -> float:
    law = _exact_third_token().double()
    kept = law > 1e-9
    assert int(counts[~kept].sum()) == 0
    expected = law[kept] / law[kept].sum() * REQUESTS
    assert float(expected.min()) > 5  # chi-square's own condition
    return float(chisquare(counts[kept].numpy(), expected.numpy()).pvalue)


@pytest.mark.parametrize("drafted", [False, True])
def test_the_third_token_follows_the_target(drafted: bool) -> None:
    assert HIDDEN == 32
    assert _p_value(_sampled_third_token(drafted)) > 1e-3


def test_a_wrong_rule_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept with q(draft), but draw the correction from q itself: the refused token gets a second chance."""

    def wrong(_engine, logits, drafts, proposal, sampling, generators):  # type: ignore[no-untyped-def]
        probs = target_distribution(logits, sampling)
        rolls = uniforms(generators, drafts.shape[1] + 1, logits.device)
        keep = rolls[:, :-1] < probs[:, :-1].gather(2, drafts[..., None]).squeeze(-1)
        accepted = keep.long().cumprod(-1).sum(-1)
        row = torch.arange(len(drafts))
        return Verdict(accepted, draw(probs[row, accepted], rolls[:, -1]))

    monkeypatch.setattr(TorchEngine, "_verify", wrong)
    assert _p_value(_sampled_third_token(drafted=True)) < 1e-6


def test_a_request_s_answer_does_not_depend_on_its_neighbours() -> None:
    """Same seed and id, alone or among requests that end earlier and later: the same tokens."""
    target = Target(target_model())
    answers = []
    for neighbours in ([], [3, 9, 30]):
        drafter = BlockDrafter(backbone(), Vocabulary.full(target.shape["vocab_size"]), target.embedding, target.head)
        engine = TorchEngine(target, drafter, stop_ids=frozenset(), max_concurrency=4, max_context=64)
        engine.submit(Request(7, PROMPT, 17, Sampling(temperature=1.0), seed=5))
        for number, tokens in enumerate(neighbours):
            engine.submit(Request(100 + number, PROMPT, tokens, Sampling(temperature=1.0), seed=5))
        done = []
        while len(done) <= len(neighbours):
            done += engine.poll()
        answers.append(next(f.output_ids for f in done if f.id == 7))
    assert answers[0] == answers[1]
