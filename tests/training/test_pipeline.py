"""Teacher data, training and serving on a tiny target: what is learnt offline is what is earned when serving."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.base import Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import FINAL, Target
from dcoco_bench.methods.dflash.objective import DFlashObjective
from dcoco_bench.training.batches import load_sequences
from dcoco_bench.training.generate import generate
from dcoco_bench.training.objective import Tables
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.teacher import read_answers, shards
from dcoco_bench.training.trainer import Settings, Trainer
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

TAPS = (0, 2)
COUNT = 40


def _generate(
    folder: Path, count: int, concurrency: int = 5, part: tuple[int, int] = (0, 1), prompts: int | None = None
) -> None:
    folder.mkdir(exist_ok=True)
    rows = [{"prompt": str(i), "domain": "general"} for i in range(prompts or count)]

    def render(text: str) -> list[int]:
        start = int(text)
        return [3 + (start * 7 + step) % 50 for step in range(4 + start % 5)]

    for _ in generate(
        Target(target_model()),
        render,
        rows,
        folder,
        taps=(*TAPS, FINAL),
        stop_ids=frozenset({0}),
        concurrency=concurrency,
        max_tokens=32,
        max_prompt=16,
        count=count,
        part=part,
    ):
        pass


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher") / "data"
    _generate(folder, COUNT)
    return folder


def test_recorded_features_are_the_model_s_hidden_states(teacher: Path) -> None:
    model = target_model()
    for sequence in load_sequences(teacher, limit=6):
        target = Target(model, (*TAPS, FINAL))
        target.allocate(1, 64)
        ids = torch.tensor([sequence.answer.ids[:-1]])
        with torch.inference_mode():
            _, features = target.forward(0, ids, torch.zeros(1, dtype=torch.long))
        assert features is not None
        torch.testing.assert_close(sequence.features.float(), features[0], rtol=2e-2, atol=2e-2)


def test_generate_goes_on_where_it_stopped_and_repeats_no_prompt(tmp_path: Path) -> None:
    _generate(tmp_path / "a", 12)
    first = [a for s in shards(tmp_path / "a") for a in read_answers(s)]
    _generate(tmp_path / "a", 20, concurrency=3)
    both = [a for s in shards(tmp_path / "a") for a in read_answers(s)]
    assert both[:12] == first
    assert sorted(a.prompt for a in both) == list(range(20))
    _generate(tmp_path / "b", 20, concurrency=1)
    alone = {a.prompt: a.output_ids for s in shards(tmp_path / "b") for a in read_answers(s)}
    assert {a.prompt: a.output_ids for a in both} == alone


def test_workers_fill_one_folder_without_meeting(tmp_path: Path) -> None:
    """Three workers, the second stopped and resumed: every prompt once, no shard overwritten."""
    for part in ((1, 3), (0, 3), (2, 3)):
        _generate(tmp_path, 3, part=part, prompts=20)
    _generate(tmp_path, 6, part=(1, 3), prompts=20)
    shard_prompts = {int(s.stem): sorted(a.prompt for a in read_answers(s)) for s in shards(tmp_path)}
    assert shard_prompts == {0: [0, 3, 6], 1: [1, 4, 7], 2: [2, 5, 8], 4: [10, 13, 16]}


def _objective(teacher: Path, layout: Layout = Layout.FILL_IN) -> DFlashObjective:
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    scale = FeatureScale.estimate(load_sequences(teacher), len(TAPS) * HIDDEN)
    return DFlashObjective(backbone(layout), Tables(table, table), Vocabulary.full(VOCAB), scale)


def _trainer(teacher: Path, out: Path, steps: int, layout: Layout = Layout.FILL_IN, **options: object) -> Trainer:
    sequences = load_sequences(teacher)
    settings = Settings(steps=steps, sequences=8, anchors=16, matrix_lr=2e-2, lr=5e-3, **options)  # type: ignore[arg-type]
    return Trainer(_objective(teacher, layout), sequences, sequences[:12], out, settings)


@pytest.mark.parametrize("layout", list(Layout))
def test_training_learns_and_the_walk_equals_serving(teacher: Path, tmp_path: Path, layout: Layout) -> None:
    trainer = _trainer(teacher, tmp_path, 120, layout)
    before = trainer.evaluate(trainer.held_out)
    after = trainer.run(lambda row: None)
    assert after.tau > before.tau + 0.5

    target = Target(target_model())
    served = BlockDrafter(
        trainer.objective.serving_backbone(), trainer.objective.vocabulary, target.embedding, target.head
    )
    engine = TorchEngine(target, served, stop_ids=frozenset({0}), max_concurrency=3, max_context=64)
    for number, sequence in enumerate(trainer.held_out):
        engine.submit(Request(number, sequence.answer.prompt_ids, 32, Sampling()))
    done = []
    while len(done) < len(trainer.held_out):
        done += engine.poll()
    for finished in done:
        assert finished.output_ids == trainer.held_out[finished.id].answer.output_ids
    rounds = sum(len(f.rounds.delivered) for f in done if f.rounds)
    delivered = sum(sum(f.rounds.delivered) for f in done if f.rounds)
    # The walk reads features rounded to bfloat16; a draft at a near-tie may differ.
    assert delivered / rounds == pytest.approx(after.tau, rel=0.02)


def test_a_resumed_run_continues_from_its_state(teacher: Path, tmp_path: Path) -> None:
    half = _trainer(teacher, tmp_path, 10)
    half.run(lambda row: None)
    resumed = _trainer(teacher, tmp_path, 14)
    assert resumed.resume()
    assert (resumed.step, resumed.blocks) == (half.step, half.blocks)
    for name, tensor in half.objective.state_dict().items():
        assert torch.equal(resumed.objective.state_dict()[name], tensor), name
    resumed.run(lambda row: None)
    assert resumed.step == 14


def test_scaled_features_fold_into_fc_exactly(teacher: Path) -> None:
    objective = _objective(teacher)
    raw = load_sequences(teacher, limit=3)[0].features[:, : len(TAPS) * HIDDEN].float()
    scaled = objective.backbone.fc(objective.scale(raw))
    torch.testing.assert_close(objective.serving_backbone().fc(raw), scaled, rtol=1e-3, atol=1e-3)
    folded = objective.scale.fold(objective.backbone.fc.weight)
    again = objective.scale(raw) @ objective.scale.unfold(folded).T
    torch.testing.assert_close(again, scaled, rtol=1e-3, atol=1e-3)
