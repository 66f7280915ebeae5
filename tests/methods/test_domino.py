"""Domino: its equation, its sizes, its walk, and serving that keeps the law of the output."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.methods.domino import METHOD
from dcoco_bench.methods.domino.drafter import stepwise
from dcoco_bench.methods.domino.head import DominoConfig, DominoHead
from dcoco_bench.methods.domino.options import TrainingOptions
from dcoco_bench.methods.domino.store import save_domino
from tests.methods import cases
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

G, R = 10, 7


def head(vocab: int = VOCAB, pure: int = 1, size: float = 1.0) -> DominoHead:
    generator = torch.Generator().manual_seed(3)
    made = DominoHead(DominoConfig(HIDDEN, vocab, G, R, pure), generator)
    made.embed_proj[0].weight.data.normal_(std=0.3, generator=generator)
    made.embed_proj[2].weight.data.normal_(std=size, generator=generator)
    return made.eval().requires_grad_(False)


def write(folder: Path, vocabulary: Vocabulary, layout: Layout = Layout.FILL_IN, pure: int = 1, **shape: int) -> Path:
    checkpoint.save(folder, backbone(layout, **shape), vocabulary)
    save_domino(folder / "domino", head(len(vocabulary), pure, size=2.0), TrainingOptions(decay_ratio=0.25))
    return folder


@pytest.mark.parametrize(("hidden", "count"), [(4096, 55_934_976), (2560, 50_823_168)])
def test_sizes_and_names_are_the_published_ones(hidden: int, count: int) -> None:
    with torch.device("meta"):
        made = DominoHead(DominoConfig(hidden, 151_936, 1024, 256))
    assert sum(p.numel() for p in made.parameters()) == count
    assert {name: tuple(t.shape) for name, t in made.state_dict().items()} == {
        "prefix_gru.weight_ih_l0": (3072, hidden),
        "prefix_gru.weight_hh_l0": (3072, 1024),
        "embed_proj.0.weight": (256, hidden + 1024),
        "embed_proj.2.weight": (151_936, 256),
    }


def by_hand_corrections(made: DominoHead, table: Tensor, hidden: Tensor, tokens: list[int]) -> list[Tensor]:
    """Corrections of slots 1..N after (anchor, slot 1, ...) = tokens, from the weights alone (gates r, z, n)."""
    w, u = made.prefix_gru.weight_ih_l0, made.prefix_gru.weight_hh_l0
    state, found = torch.zeros(G), []
    for slot, token in enumerate(tokens):
        (ir, iz, inn), (hr, hz, hn) = (w @ table[token]).split(G), (u @ state).split(G)
        reset, update = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
        state = (1 - update) * torch.tanh(inn + reset * hn) + update * state
        bottleneck = silu(made.embed_proj[0].weight @ torch.cat([hidden[slot], state]))
        found.append(made.embed_proj[2].weight @ bottleneck)
    return found


def test_the_stepwise_walk_is_the_equation_and_the_unrolled_training_pass() -> None:
    generator = torch.Generator().manual_seed(1)
    table, hidden = torch.randn(VOCAB, HIDDEN, generator=generator), torch.randn(2, 4, HIDDEN, generator=generator)
    tokens = torch.tensor([[5, 9, 9, 30], [17, 0, 44, 2]])  # the anchor, then slots 1..3
    for pure in (1, 2):
        made = head(pure=pure)
        correct = stepwise(made, table, hidden)
        unrolled = made.correction(hidden, made.prefix_states(table[tokens]))
        by_hand = torch.stack(
            [torch.stack(by_hand_corrections(made, table, hidden[b], tokens[b].tolist())) for b in range(2)]
        )
        torch.testing.assert_close(unrolled, by_hand, rtol=1e-4, atol=1e-5)
        for slot in range(4):
            step = correct(slot, tokens[:, slot])
            if slot < pure:
                assert step is None
            else:
                assert step is not None
                torch.testing.assert_close(step, by_hand[:, slot], rtol=1e-4, atol=1e-5)


def test_a_zero_output_leaves_the_drafter_s_argmax(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    hidden, anchors = torch.randn(4, 5, HIDDEN), torch.tensor([1, 2, 3, 4])
    argmax = (hidden @ target.head.T).argmax(-1)
    tokens = cases.build(METHOD, folder, target).choose(hidden, anchors, Sampling(), []).tokens
    assert torch.equal(tokens[:, 0], argmax[:, 0])
    assert not torch.equal(tokens, argmax)
    save_domino(folder / "domino", head(size=0.0), TrainingOptions())
    tokens = cases.build(METHOD, folder, target).choose(hidden, anchors, Sampling(), []).tokens
    assert torch.equal(tokens, argmax)


@pytest.mark.parametrize(
    ("layout", "kept"),
    [(Layout.FILL_IN, cases.KEPT), (Layout.ANCHOR_FIRST, torch.arange(VOCAB))],
    ids=["pruned", "full"],
)
def test_drafting_changes_no_token(tmp_path: Path, layout: Layout, kept: Tensor) -> None:
    folder = write(tmp_path, Vocabulary(kept, VOCAB), layout)
    assert cases.changes_no_token(METHOD, folder, (1, ""), (4, "draft=sampled"), (4, "n=3"))


def test_sampled_output_follows_the_target_and_a_misstated_law_is_caught(tmp_path: Path) -> None:
    target = Target(target_model(vocab_size=cases.SMALL))
    folder = write(tmp_path, Vocabulary.full(cases.SMALL), vocab_size=cases.SMALL)
    drafter = cases.build(METHOD, folder, target, "draft=sampled")
    assert cases.sampling_p_value(drafter) > 1e-3
    assert cases.sampling_p_value(cases.misstated(drafter)) < 1e-6


def test_an_argmax_draft_is_a_point_mass_and_its_output_follows_the_target(tmp_path: Path) -> None:
    target = Target(target_model(vocab_size=cases.SMALL))
    folder = write(tmp_path, Vocabulary.full(cases.SMALL), vocab_size=cases.SMALL)
    drafter = cases.build(METHOD, folder, target)
    assert cases.sampling_p_value(drafter, sampled=False) > 1e-3
    hidden, anchors = torch.randn(4, drafter.slots, HIDDEN), torch.tensor([1, 2, 3, 4])
    generators = [torch.Generator().manual_seed(row) for row in range(4)]
    warm, cold = (drafter.choose(hidden, anchors, rule, generators) for rule in (cases.SAMPLING, Sampling()))
    assert torch.equal(warm.tokens, cold.tokens)


def test_misfits_are_one_clear_line(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    for text, message in (
        ("rank=8", "trained with rank=7"),
        ("decay_ratio=0.5", "trained with decay_ratio=0.25"),
        ("draft=random", "must be one of argmax, sampled"),
        ("gamma=0", "must be a number above 0"),
        ("lambda0=2", r"must lie in \[0, 1\]"),
    ):
        with pytest.raises(UserError, match=message):
            cases.build(METHOD, folder, target, text)
    with pytest.raises(UserError, match="none of 5 slots"):
        cases.objective(METHOD, "pure=5", cases.chains(12))
    save_domino(folder / "domino", head(30), TrainingOptions())
    with pytest.raises(UserError, match="vocab_size 30"):
        cases.build(METHOD, folder, target)
