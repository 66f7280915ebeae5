"""What the tests of the heads share: serving through the engine, and answers that only a head can learn."""

from __future__ import annotations

from pathlib import Path

import torch
from scipy.stats import chisquare

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.drafter import Drafter
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.verify import draw, target_distribution, uniforms, verify_point_mass, verify_sampled
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.base import Finished, Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import FINAL, Target
from dcoco_bench.method import Method, MethodSpec
from dcoco_bench.training.batches import Sequence, load_sequences
from dcoco_bench.training.generate import generate
from dcoco_bench.training.objective import Objective, Tables
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.teacher import Answer
from dcoco_bench.training.trainer import Settings, Trainer
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

PROMPTS = [[3, 9, 27, 5], [8, 8, 1], [44, 2, 17, 60, 31, 12, 7], [5], [12, 13, 14, 15, 16]]
KEPT = torch.arange(0, VOCAB, 2)
SMALL, ROWS = 7, 8000  # vocabulary and rows of the sampling law
SAMPLING = Sampling(temperature=1.0, top_p=0.95)


def decode(
    drafter: Drafter | None, target: Target, concurrency: int, sampling: Sampling | None = None, seed: int = 0
) -> list[list[int]]:
    """Outputs of PROMPTS, at T=0 unless said, refilled as they finish."""
    engine = TorchEngine(target, drafter, stop_ids=frozenset({0}), max_concurrency=concurrency, max_context=64)
    waiting = [Request(i, ids, 16, sampling or Sampling(), seed) for i, ids in enumerate(PROMPTS)]
    done: list[Finished] = []
    in_flight = 0
    while waiting or in_flight:
        while waiting and in_flight < concurrency:
            engine.submit(waiting.pop(0))
            in_flight += 1
        finished = engine.poll()
        done += finished
        in_flight -= len(finished)
    return [f.output_ids for f in sorted(done, key=lambda f: f.id)]


def build(method: Method, folder: Path, target: Target, text: str = "") -> BlockDrafter:
    params = MethodSpec.parse(f"{method.name}@{text}").resolve(method.params)
    drafter = method.drafter(folder, target, params)
    assert isinstance(drafter, BlockDrafter)
    return drafter


def changes_no_token(method: Method, folder: Path, *served: tuple[int, str]) -> bool:
    """T=0: at every (concurrency, parameters) the outputs are plain decoding's."""
    target = Target(target_model())
    plain = decode(None, target, 1)
    return all(decode(build(method, folder, target, text), target, c) == plain for c, text in served)


def misstated(drafter: BlockDrafter) -> BlockDrafter:
    """The same drafter, lying about the law of its sampled proposals."""
    honest = drafter.choose
    drafter.choose = lambda *given: (p := honest(*given))._replace(probs=p.probs.square())  # type: ignore
    return drafter


def sampling_p_value(drafter: BlockDrafter, sampled: bool = True) -> float:
    """Chi-square of the first two output tokens of one round, over many rows, against a toy target's exact law.

    The target is a Markov chain over SMALL tokens. A row that accepts nothing draws its second token from the target,
    as a next round would by the law under test elsewhere (tests/engines/test_sampling_law.py).
    """
    generator = torch.Generator().manual_seed(8)
    table = torch.randn(SMALL, SMALL, generator=generator)
    generators = [torch.Generator().manual_seed(number) for number in range(ROWS)]
    anchors = torch.full((ROWS,), 3)
    hidden = torch.randn(1, drafter.slots, HIDDEN, generator=generator).expand(ROWS, -1, -1)
    proposal = drafter.choose(hidden, anchors, SAMPLING, generators)
    assert (proposal.probs is not None) is sampled
    logits = table[torch.cat([anchors[:, None], proposal.tokens], dim=1)]
    rolls = uniforms(generators, drafter.slots + 1, anchors.device)
    if proposal.probs is None:
        verdict = verify_point_mass(logits, proposal.tokens, SAMPLING, rolls, proposal.lengths)
    else:
        verdict = verify_sampled(logits, proposal.tokens, proposal.probs, SAMPLING, rolls, proposal.lengths)
    accepted, following = verdict
    assert 0 < int((accepted > 0).sum()) < ROWS
    laws = target_distribution(table, SAMPLING)
    first = torch.where(accepted > 0, proposal.tokens[:, 0], following)
    later = draw(laws[first], torch.rand(ROWS, generator=generator))
    second = torch.where(accepted > 1, proposal.tokens[:, 1], torch.where(accepted == 1, following, later))
    law = (laws[3][:, None] * laws).flatten().double()
    counts, kept = torch.bincount(first * SMALL + second, minlength=SMALL**2), law > 0
    assert int(counts[~kept].sum()) == 0
    assert float(law[kept].min()) * ROWS > 5  # chi-square's own condition
    return float(chisquare(counts[kept].numpy(), (law[kept] / law.sum() * ROWS).numpy()).pvalue)


def teacher(folder: Path) -> list[Sequence]:
    """32 greedy answers of the tiny target."""
    folder.mkdir()
    for _ in generate(
        Target(target_model()),
        lambda text: [3 + (int(text) * 7 + step) % 50 for step in range(4 + int(text) % 5)],
        [{"prompt": str(i), "domain": "general"} for i in range(32)],
        folder,
        taps=(0, 2, FINAL),
        stop_ids=frozenset({0}),
        concurrency=8,
        max_tokens=24,
        max_prompt=16,
        count=32,
    ):
        pass
    return load_sequences(folder)


def objective(
    method: Method,
    text: str,
    sequences: list[Sequence],
    vocabulary: Vocabulary | None = None,
    layout: Layout = Layout.FILL_IN,
) -> Objective:
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    params = MethodSpec.parse(f"{method.name}@{text}").resolve_for_training(method.params)
    scale = FeatureScale.estimate(sequences, 2 * HIDDEN)
    full = Vocabulary.full(VOCAB)
    return method.objective(backbone(layout), Tables(table, table), vocabulary or full, scale, params)


def served_tau(drafter: Drafter, target: Target, sequences: list[Sequence]) -> float:
    """Serve the answers' prompts; the outputs must be the answers. Delivered tokens a round."""
    engine = TorchEngine(target, drafter, stop_ids=frozenset({0}), max_concurrency=3, max_context=64)
    for number, sequence in enumerate(sequences):
        engine.submit(Request(number, sequence.answer.prompt_ids, 24, Sampling()))
    done: list[Finished] = []
    while len(done) < len(sequences):
        done += engine.poll()
    assert all(f.output_ids == sequences[f.id].answer.output_ids for f in done)
    delivered = [d for f in done if f.rounds for d in f.rounds.delivered]
    return sum(delivered) / len(delivered)


def chains(alphabet: int, count: int = 16, length: int = 20) -> list[Sequence]:
    """Every token is followed by the same next one; features say nothing."""
    generator = torch.Generator().manual_seed(5)
    ring = torch.randperm(alphabet, generator=generator).tolist()
    found = []
    for number in range(count):
        ids = [ring[(number + step) % alphabet] for step in range(length)]
        features = torch.randn(length - 1, 3 * HIDDEN, generator=generator).bfloat16()
        found.append(Sequence(Answer(number, "general", ids[:3], ids[3:]), features))
    return found


def train_head_alone(made: Objective, sequences: list[Sequence], out: Path, steps: int, lr: float) -> tuple[float, ...]:
    """Walk's tau before and after, the backbone (random) frozen: what improves is the head."""
    made.backbone.requires_grad_(False)
    trainer = Trainer(
        made, sequences, sequences, out, Settings(steps=steps, sequences=8, anchors=12, lr=lr, matrix_lr=lr)
    )
    before = trainer.evaluate(sequences).tau
    return before, trainer.run(lambda row: None).tau
