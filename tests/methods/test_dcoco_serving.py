"""DCOCO as a plug-in: cells, checkpoints, and lossless output through the engine for every selection rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.drafter import Drafter
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.base import Finished, Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.method import MethodSpec
from dcoco_bench.methods.dcoco import METHOD
from dcoco_bench.methods.dcoco.drafter import DCOCODrafter
from dcoco_bench.methods.dcoco.head import Corrector, CorrectorConfig
from dcoco_bench.methods.dcoco.options import TrainingOptions
from dcoco_bench.methods.dcoco.store import save_corrector
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

PROMPTS = [[3, 9, 27, 5], [8, 8, 1], [44, 2, 17, 60, 31, 12, 7], [5], [12, 13, 14, 15, 16]]
KEPT = torch.arange(0, VOCAB, 2)
RULES = ("select=greedy", "select=global-sum", "select=geometric", "corrector=off")


def corrector(first: bool = False) -> Corrector:
    """Random, with corrections large enough to change the walk."""
    made = Corrector(CorrectorConfig(HIDDEN, width=8, mlp_width=16, first=first), torch.Generator().manual_seed(4))
    made.mlp_out.weight.data.normal_(std=20.0, generator=torch.Generator().manual_seed(4))
    return made


@pytest.fixture(params=["full", "pruned"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return _write(tmp_path, Vocabulary(KEPT, VOCAB) if request.param == "pruned" else Vocabulary.full(VOCAB))


def _write(path: Path, vocabulary: Vocabulary, first: bool = False, layout: Layout = Layout.FILL_IN) -> Path:
    checkpoint.save(path, backbone(layout), vocabulary)
    save_corrector(path / "corrector", corrector(first), 8, TrainingOptions(rho=2.0))
    return path


def _drafter(folder: Path, text: str, target: Target) -> BlockDrafter:
    spec = MethodSpec.parse(f"dcoco@{text}")
    return METHOD.drafter(folder, target, spec.resolve(METHOD.params))


def decode(drafter: Drafter | None, target: Target, concurrency: int, sampling: Sampling) -> list[Finished]:
    engine = TorchEngine(target, drafter, stop_ids=frozenset({0}), max_concurrency=concurrency, max_context=64)
    waiting = [Request(i, ids, 16, sampling) for i, ids in enumerate(PROMPTS)]
    done: list[Finished] = []
    flying = 0
    while waiting or flying:
        while waiting and flying < concurrency:
            engine.submit(waiting.pop(0))
            flying += 1
        finished = engine.poll()
        done, flying = done + finished, flying - len(finished)
    return sorted(done, key=lambda f: f.id)


@pytest.fixture(scope="module")
def plain() -> list[list[int]]:
    return [f.output_ids for f in decode(None, Target(target_model()), 1, Sampling())]


@pytest.mark.parametrize("rule", RULES)
def test_greedy_output_is_vanilla_s_for_every_rule(folder: Path, rule: str, plain: list[list[int]]) -> None:
    model = target_model()
    for concurrency in (1, 4):
        target = Target(model)
        drafted = decode(_drafter(folder, rule, target), target, concurrency, Sampling())
        assert [f.output_ids for f in drafted] == plain


def test_rules_and_switches_give_different_drafts_and_off_is_the_drafter(folder: Path) -> None:
    target = Target(target_model())
    hidden, anchors = torch.randn(16, 5, HIDDEN), torch.randint(3, VOCAB, (16,))

    def draft(text: str) -> torch.Tensor:
        return _drafter(folder, text, target).choose(hidden, anchors, Sampling(), []).tokens

    drafts = {text: draft(text) for text in (*RULES, "pair=off", "zero=state", "k=3")}
    net, vocabulary = checkpoint.load(folder)
    plain = BlockDrafter(net, vocabulary, target.embedding, target.head).choose(hidden, anchors, Sampling(), []).tokens
    assert torch.equal(drafts.pop("corrector=off"), plain)
    assert torch.equal(draft("zero=z"), plain)
    assert torch.equal(draft("zero=token"), plain)  # a slot's candidates then share one vector
    assert torch.equal(draft("k=1"), plain)
    texts = list(drafts)
    for i, text in enumerate(texts):
        assert not torch.equal(drafts[text], plain), text
        assert all(not torch.equal(drafts[text], drafts[other]) for other in texts[:i]), text
    assert torch.equal(draft("select=geometric,lambda=1"), drafts["select=global-sum"])
    assert torch.equal(draft("select=geometric,lambda=1e-9"), drafts["select=greedy"])
    assert torch.equal(drafts["select=greedy"][:, 0], plain[:, 0])  # slot 1 stays the drafter's


def test_rows_of_a_batch_do_not_mix(folder: Path) -> None:
    target = Target(target_model())
    drafter = _drafter(folder, "select=global-sum", target)
    hidden, anchors = torch.randn(9, 5, HIDDEN), torch.randint(3, VOCAB, (9,))
    whole = drafter.choose(hidden, anchors, Sampling(), []).tokens
    alone = [drafter.choose(hidden[r : r + 1], anchors[r : r + 1], Sampling(), []).tokens for r in range(9)]
    assert torch.equal(whole, torch.cat(alone))


def test_sampling_runs_on_point_masses_and_does_not_depend_on_neighbours(folder: Path) -> None:
    model = target_model()
    outputs = []
    for concurrency in (1, 4):
        target = Target(model)
        drafter = _drafter(folder, "select=greedy", target)
        assert drafter.choose(torch.randn(1, 5, HIDDEN), torch.tensor([3]), Sampling(temperature=1.0), []).probs is None
        outputs.append([f.output_ids for f in decode(drafter, target, concurrency, Sampling(temperature=1.0))])
    # In its last block a request verifies as many drafts as its longest neighbour has use for, so there draws differ.
    assert [ids[:10] for ids in outputs[0]] == [ids[:10] for ids in outputs[1]]
    assert all(0 < len(ids) <= 16 for ids in outputs[0])


@pytest.mark.parametrize("layout", list(Layout))
def test_the_anchor_s_transition_moves_slot_one_and_stays_lossless(
    tmp_path: Path, layout: Layout, plain: list[list[int]]
) -> None:
    target = Target(target_model())
    on = _drafter(_write(tmp_path, Vocabulary(KEPT, VOCAB), True, layout), "first=on", target)
    off = _drafter(tmp_path, "first=off", target)
    hidden, anchors = torch.randn(16, on.slots, HIDDEN), torch.randint(3, VOCAB, (16,))
    first_slots = [d.choose(hidden, anchors, Sampling(), []).tokens[:, 0] for d in (on, off)]
    assert not torch.equal(*first_slots)
    assert [f.output_ids for f in decode(on, target, 4, Sampling())] == plain


def test_the_gathered_token_halves_are_those_of_the_embeddings(folder: Path) -> None:
    target = Target(target_model())
    drafter = _drafter(folder, "k=8", target)
    assert isinstance(drafter, DCOCODrafter)
    ids = torch.randint(0, len(drafter.vocabulary), (2, 5, 8))
    multiplied = drafter.corrector.token_half(target.embedding[drafter.vocabulary.to_target(ids)])
    torch.testing.assert_close(drafter.token_halves[ids], multiplied)
    assert drafter.token_halves.shape == (len(drafter.vocabulary), 8)


def test_the_corrector_is_stored_beside_the_backbone(folder: Path) -> None:
    saved = load_file(folder / "corrector" / "model.safetensors")
    assert {n.split(".")[0] for n in saved} == {n.split(".")[0] for n, _ in corrector().named_parameters()}
    drafter = _drafter(folder, "select=greedy", Target(target_model()))
    assert isinstance(drafter, DCOCODrafter)
    for name, tensor in corrector().state_dict().items():
        assert torch.equal(drafter.corrector.state_dict()[name], tensor), name
    assert drafter.k == 8
    assert drafter.effective_config()["k"] == 8
    config = json.loads((folder / "corrector" / "config.json").read_text())
    assert config["training"]["rho"] == 2.0
    _drafter(folder, "rho=2", Target(target_model()))  # said, and true


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rho=4", r"trained with rho=2\.0"),
        ("frozen=on", "trained with frozen=off"),
        ("first=on", "trained with first=off"),
        ("k=62", "say k="),
        ("k=0", "at least 1"),
        ("select=beam", "greedy, global-sum, geometric"),
        ("lambda=1.5", r"\(0, 1\]"),
        ("zero=all", "none, z, token, state"),
        ("corrector=maybe", "on, off"),
        ("depth=2", "no parameter 'depth'"),
    ],
)
def test_what_a_cell_cannot_have_is_one_clear_line(tmp_path: Path, text: str, reason: str) -> None:
    path = _write(tmp_path, Vocabulary.full(VOCAB))
    with pytest.raises(UserError, match=reason) as caught:
        _drafter(path, text, Target(target_model()))
    assert "\n" not in str(caught.value)


def test_a_checkpoint_without_a_corrector_or_with_a_foreign_one_is_refused(tmp_path: Path) -> None:
    target = Target(target_model())
    checkpoint.save(tmp_path, backbone(), Vocabulary.full(VOCAB))
    with pytest.raises(UserError, match="corrector"):
        _drafter(tmp_path, "k=8", target)
    save_corrector(tmp_path / "corrector", Corrector(CorrectorConfig(HIDDEN * 2)), 8, TrainingOptions())
    with pytest.raises(UserError, match="hidden_size 64"):
        _drafter(tmp_path, "k=8", target)
    config = tmp_path / "corrector" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"hidden_size": HIDDEN}))
    with pytest.raises(UserError, match=r"emb_proj.weight is \[128, 64\]"):
        _drafter(tmp_path, "k=8", target)
    config.write_text(json.dumps({"hidden_size": "wide", "width": 8}))
    with pytest.raises(UserError, match="hidden_size, mlp_width missing or not usable"):
        _drafter(tmp_path, "k=8", target)


def test_training_refuses_what_only_serving_reads() -> None:
    spec = MethodSpec.parse("dcoco@select=global-sum")
    with pytest.raises(UserError, match="select is read when serving"):
        spec.resolve_for_training(METHOD.params)
    assert MethodSpec.parse("dcoco@rho=2").resolve_for_training(METHOD.params)["rho"] == 2.0
