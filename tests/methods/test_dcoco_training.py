"""Training the corrector: the walk improves on its own start, and serving earns what the held-out walk says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.config import DraftConfig
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.base import Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import FINAL, Target
from dcoco_bench.method import MethodSpec
from dcoco_bench.methods.dcoco import METHOD
from dcoco_bench.methods.dcoco.objective import DCOCOObjective
from dcoco_bench.methods.dflash.objective import DFlashObjective
from dcoco_bench.training.batches import Sequence, load_sequences
from dcoco_bench.training.generate import generate
from dcoco_bench.training.objective import Objective, Tables
from dcoco_bench.training.scaling import FeatureScale
from dcoco_bench.training.trainer import Settings, Trainer
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

TAPS, COUNT = (0, 2), 32


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> list[Sequence]:
    folder = tmp_path_factory.mktemp("teacher")
    for _ in generate(
        Target(target_model()),
        lambda text: [3 + (int(text) * 7 + step) % 50 for step in range(4 + int(text) % 5)],
        [{"prompt": str(i), "domain": "general"} for i in range(COUNT)],
        folder,
        taps=(*TAPS, FINAL),
        stop_ids=frozenset({0}),
        concurrency=8,
        max_tokens=32,
        max_prompt=16,
        count=COUNT,
    ):
        pass
    return load_sequences(folder)


def _tables() -> Tables:
    table = Target(target_model()).embedding
    return Tables(table, table)


def _trainer(objective: Objective, sequences: list[Sequence], out: Path, steps: int, **options: object) -> Trainer:
    settings = Settings(steps=steps, sequences=8, anchors=12, lr=5e-3, matrix_lr=1e-2, **options)  # type: ignore[arg-type]
    return Trainer(objective, sequences, sequences[:12], out, settings)


@pytest.fixture(scope="module")
def phase_one(sequences: list[Sequence], tmp_path_factory: pytest.TempPathFactory) -> BlockBackbone:
    scale = FeatureScale.estimate(sequences, len(TAPS) * HIDDEN)
    objective = DFlashObjective(backbone(), _tables(), Vocabulary.full(VOCAB), scale)
    _trainer(objective, sequences, tmp_path_factory.mktemp("phase1"), 60).run(lambda row: None)
    return objective.serving_backbone()


def _objective(phase_one: BlockBackbone, sequences: list[Sequence], text: str) -> DCOCOObjective:
    network = BlockBackbone(phase_one.config)
    network.load_state_dict(phase_one.state_dict())
    params = MethodSpec.parse(text).resolve_for_training(METHOD.params)
    estimated = FeatureScale.estimate(sequences, len(TAPS) * HIDDEN)
    scale = FeatureScale(torch.zeros_like(estimated.direction), estimated.deviation)
    network.fc.weight.data = scale.unfold(network.fc.weight.data)
    objective = METHOD.objective(network, _tables(), Vocabulary.full(VOCAB), scale, params)
    assert isinstance(objective, DCOCOObjective)
    return objective


def test_a_corrector_alone_improves_the_walk_and_leaves_the_drafter_as_it_was(
    sequences: list[Sequence], phase_one: BlockBackbone, tmp_path: Path
) -> None:
    trainer = _trainer(
        _objective(phase_one, sequences, "dcoco@frozen=on,first=on,k=12,blocks=3"), sequences, tmp_path, 60
    )
    drafter = {name: tensor.clone() for name, tensor in trainer.objective.backbone.state_dict().items()}
    before = trainer.evaluate(trainer.held_out)
    after = trainer.run(lambda row: None)
    assert after.tau > before.tau + 0.02
    for name, tensor in drafter.items():
        assert torch.equal(trainer.objective.backbone.state_dict()[name], tensor), name


def test_joint_training_saves_a_checkpoint_that_serves_what_the_walk_promised(
    sequences: list[Sequence], phase_one: BlockBackbone, tmp_path: Path
) -> None:
    trainer = _trainer(
        _objective(phase_one, sequences, "dcoco@k=12,blocks=3"), sequences, tmp_path / "run", 60, backbone_lr=0.5
    )
    before = trainer.evaluate(trainer.held_out)
    after = trainer.run(lambda row: None)
    assert after.tau > before.tau + 0.05
    METHOD.save(tmp_path / "draft", trainer.objective, _tables())
    assert DraftConfig.read(tmp_path / "draft").method == "dcoco"

    target = Target(target_model())
    drafter = METHOD.drafter(tmp_path / "draft", target, MethodSpec.parse("dcoco").resolve(METHOD.params))
    engine = TorchEngine(target, drafter, stop_ids=frozenset({0}), max_concurrency=4, max_context=64)
    for number, sequence in enumerate(trainer.held_out):
        engine.submit(Request(number, sequence.answer.prompt_ids, 32, Sampling()))
    done = []
    while len(done) < len(trainer.held_out):
        done += engine.poll()
    for finished in done:
        assert finished.output_ids == trainer.held_out[finished.id].answer.output_ids
    rounds = sum(len(f.rounds.delivered) for f in done if f.rounds)
    delivered = sum(sum(f.rounds.delivered) for f in done if f.rounds)
    # The checkpoint's backbone is bfloat16, and so are the features of the walk.
    assert delivered / rounds == pytest.approx(after.tau, rel=0.04)


def test_the_backbone_s_rate_is_its_share_of_the_head_s(
    sequences: list[Sequence], phase_one: BlockBackbone, tmp_path: Path
) -> None:
    trainer = _trainer(
        _objective(phase_one, sequences, "dcoco@k=12,blocks=3"), sequences, tmp_path, 3, backbone_lr=0.25
    )
    trainer.run(lambda row: None)
    backbone_parameters = {id(p) for p in trainer.objective.backbone.parameters()}
    for optimizer in trainer.optimizers:
        rates = {
            all(id(p) in backbone_parameters for p in group["params"]): group["lr"] for group in optimizer.param_groups
        }
        assert rates[True] == pytest.approx(0.25 * rates[False])
        assert rates[False] > 0
