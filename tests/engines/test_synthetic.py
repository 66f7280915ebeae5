"""Synthetic acceptance: a tau that was asked for, marked as simulated, by one rule in both engines."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Generator

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.base import Request
from dcoco_bench.engines.synthetic import synthetic_tau
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.synthetic import accept_synthetic
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.engines.vllm.command import ServerPlan
from dcoco_bench.errors import UserError
from dcoco_bench.method import VLLMDraft
from tests.tiny import VOCAB, backbone, target_model


def test_rounds_deliver_the_tau_that_was_asked_for() -> None:
    generators = [Generator().manual_seed(i) for i in range(4000)]
    logits = torch.randn(4000, 8, 11)
    verdict = accept_synthetic(logits, torch.zeros(4000, 7, dtype=torch.long), 3.3, generators)
    assert set(verdict.accepted.tolist()) == {2, 3}
    assert 1 + verdict.accepted.double().mean().item() == pytest.approx(3.3, abs=0.03)
    assert verdict.following[0] == logits[0, verdict.accepted[0]].argmax()


def test_no_round_accepts_more_than_it_drafted() -> None:
    verdict = accept_synthetic(torch.randn(2, 3, 5), torch.zeros(2, 2, dtype=torch.long), 6.0, [Generator()] * 2)
    assert verdict.accepted.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("said", "slots", "reason"), [("x", 7, "a number"), ("0.5", 7, "1 or more"), ("9", 7, "delivers 8 at most")]
)
def test_a_tau_that_no_round_can_have_is_named(said: str, slots: int, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        synthetic_tau({"synthetic-tau": said}, slots)


def test_nothing_asked_is_nothing_simulated() -> None:
    assert synthetic_tau({}, 7) is None
    assert synthetic_tau({"synthetic-tau": "3"}, None) == 3.0  # the baseline is marked with its run


def test_the_torch_engine_delivers_it_and_says_so() -> None:
    target = Target(target_model())
    drafter = BlockDrafter(backbone(), Vocabulary.full(VOCAB), target.embedding, target.head)
    engine = TorchEngine(target, drafter, stop_ids=frozenset(), max_concurrency=2, max_context=200, synthetic_tau=2.0)
    for i in range(2):
        engine.submit(Request(i, [1 + i, 5, 9], 61, Sampling()))
    done = []
    while len(done) < 2:
        done += engine.poll()
    assert engine.effective_config()["simulated"] is True
    for finished in done:
        assert finished.rounds is not None
        assert finished.rounds.delivered == [2] * 30
        assert all(0 <= token < VOCAB for token in finished.output_ids)


def test_vllm_is_asked_by_its_own_names() -> None:
    plan = ServerPlan("m", "m", "float32", 64, 2, VLLMDraft("dflash", 7, plugin=True), Path("d"), synthetic_tau=3.0)
    config = plan.speculative_config()
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_length"] == 3.0
    assert "rejection_sample_method" not in ServerPlan("m", "m", "f", 64, 2, plan.draft, Path("d")).speculative_config()
