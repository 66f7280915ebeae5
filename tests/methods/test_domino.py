"""Domino: its equation in both layouts, its sizes, its walk, its lambda, its training, and lossless serving."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from dcoco_bench.methods.domino import METHOD
from dcoco_bench.methods.domino.drafter import stepwise
from dcoco_bench.methods.domino.head import DominoConfig, DominoHead
from dcoco_bench.methods.domino.objective import DominoObjective
from dcoco_bench.methods.domino.options import TrainingOptions
from dcoco_bench.methods.domino.store import save_domino
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import silu

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.training.batches import anchor_range, collate
from dcoco_bench.training.objective import Tables
from dcoco_bench.training.unary import unary_loss
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


def _by_hand(made: DominoHead, table: Tensor, hidden: Tensor, tokens: list[int]) -> list[Tensor]:
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
        by_hand = torch.stack([torch.stack(_by_hand(made, table, hidden[b], tokens[b].tolist())) for b in range(2)])
        torch.testing.assert_close(unrolled, by_hand, rtol=1e-4, atol=1e-5)
        for slot in range(4):
            step = correct(slot, tokens[:, slot])
            if slot < pure:
                assert step is None
            else:
                assert step is not None
                torch.testing.assert_close(step, by_hand[:, slot], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", list(Layout))
def test_training_corrects_slot_i_with_the_anchor_and_slots_before_it(layout: Layout) -> None:
    """In both layouts: the offset that predicts slot i changes, the prefix it has read does not."""
    sequences = cases.chains(VOCAB)
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, "gru=10,rank=7", sequences, layout=layout)
    assert isinstance(made, DominoObjective)
    made.domino.load_state_dict(head().state_dict())
    batch = collate(sequences[:2], [torch.tensor([4, 9]), torch.tensor([5, 7])], made.config.slots, HIDDEN)
    hidden = made.slot_hidden(batch)
    logits = made.unary_logits(hidden)
    corrected = made.corrected(hidden, logits, batch)
    assert torch.equal(corrected[:, :, 0], logits[:, :, 0])  # P = 1: slot 1 stays the drafter's
    for row, block in ((0, 1), (1, 0)):
        read = [int(batch.anchor_ids[row, block]), *batch.labels[row, block, :-1].tolist()]
        by_hand = _by_hand(made.domino, table, hidden[row, block], read)
        for slot in range(1, made.config.slots):
            torch.testing.assert_close(
                corrected[row, block, slot], logits[row, block, slot] + by_hand[slot], rtol=1e-4, atol=1e-4
            )


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
    target = Target(target_model())
    plain = cases.decode(None, target, 1)
    folder = write(tmp_path, Vocabulary(kept, VOCAB), layout)
    for concurrency, text in ((1, ""), (4, "draft=sampled"), (4, "n=3")):
        assert cases.decode(cases.build(METHOD, folder, target, text), target, concurrency) == plain


def test_sampled_output_follows_the_target_and_a_misstated_law_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(target_model(vocab_size=cases.SMALL))
    folder = write(tmp_path, Vocabulary.full(cases.SMALL), vocab_size=cases.SMALL)
    drafter = cases.build(METHOD, folder, target, "draft=sampled")
    assert cases.sampling_p_value(drafter) > 1e-3
    honest = drafter.choose
    monkeypatch.setattr(drafter, "choose", lambda *given: (p := honest(*given))._replace(probs=p.probs.square()))
    assert cases.sampling_p_value(drafter) < 1e-6


def test_lambda_falls_in_a_line_to_zero() -> None:
    options = TrainingOptions(lambda0=0.8, decay_ratio=0.5)
    assert [round(options.base_share(p), 6) for p in (0.0, 0.25, 0.5, 1.0)] == [0.8, 0.4, 0.0, 0.0]


def test_the_loss_mixes_the_two_by_lambda() -> None:
    sequences = cases.chains(12)
    batch = collate([sequences[0]], [torch.tensor([4, 9])], 5, HIDDEN)
    made = cases.objective(METHOD, "gru=10,rank=7", sequences)
    assert isinstance(made, DominoObjective)
    made.domino.load_state_dict(head().state_dict())
    hidden = made.slot_hidden(batch)
    logits = made.unary_logits(hidden)
    base = unary_loss(logits, batch, made.vocabulary).value
    final = unary_loss(made.corrected(hidden, logits, batch), batch, made.vocabulary).value
    assert base.item() != pytest.approx(final.item(), rel=1e-3)
    for progress, share in ((0.0, 1.0), (0.125, 0.75), (0.5, 0.0), (0.9, 0.0)):
        mixed = (1 - share) * final + share * base
        assert made.loss(batch, progress).value.item() == pytest.approx(mixed.item(), rel=1e-5)


def test_training_teaches_the_head_what_the_drafter_cannot_know(tmp_path: Path) -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "gru=24,rank=16,decay_ratio=0.1", sequences)
    before, after = cases.train_head_alone(made, sequences, tmp_path, 80, 3e-2)
    assert before < 1.5
    # Slot 1 is the random drafter's own, so a walk never starts right; what is learnt is what follows a right start.
    assert after >= before
    batch = collate([sequences[0]], [torch.tensor([4, 6])], 5, HIDDEN)
    assert isinstance(made, DominoObjective)
    hidden = made.slot_hidden(batch)
    forced = made.corrected(hidden, made.unary_logits(hidden), batch).argmax(-1)
    assert torch.equal(forced[..., 1:], batch.labels[..., 1:])


def test_what_is_trained_is_saved_loaded_and_served(tmp_path: Path) -> None:
    sequences = cases.teacher(tmp_path / "teacher")
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, "gru=12,rank=8,lambda0=0.5", sequences)
    settings = cases.Settings(steps=40, sequences=8, anchors=8, matrix_lr=2e-2)
    trainer = cases.Trainer(made, sequences, sequences[:8], tmp_path / "run", settings)
    tau = trainer.run(lambda row: None).tau
    METHOD.save(tmp_path / "draft", made, Tables(table, table))
    target = Target(target_model())
    drafter = cases.build(METHOD, tmp_path / "draft", target, "gru=12,lambda0=0.5")
    for name, tensor in load_file(tmp_path / "draft" / "domino" / "model.safetensors").items():
        assert torch.equal(drafter.domino.state_dict()[name], tensor.float())  # type: ignore[attr-defined]
    assert tau > 1.2
    # The checkpoint is bfloat16, and so are the walk's features; drafts at near-ties may differ.
    assert cases.served_tau(drafter, target, trainer.held_out) == pytest.approx(tau, rel=0.05)


def test_a_draft_is_the_self_conditioned_walk_not_the_forced_one() -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "gru=10,rank=7", sequences)
    assert isinstance(made, DominoObjective)
    made.domino.load_state_dict(head(size=2.0).state_dict())
    first, end = anchor_range(sequences[1].answer)
    batch = collate([sequences[1]], [torch.arange(first, end)], 5, HIDDEN)
    drafted = made.draft(batch)
    hidden = made.slot_hidden(batch)
    assert not torch.equal(drafted, made.corrected(hidden, made.unary_logits(hidden), batch).argmax(-1))
    batch.labels = (batch.labels + 1) % VOCAB
    assert torch.equal(made.draft(batch), drafted)


def test_misfits_are_one_clear_line(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    for text, message in (
        ("rank=8", "trained with rank=7"),
        ("decay_ratio=0.5", "trained with decay_ratio=0.25"),
        ("draft=random", "must be one of argmax, sampled"),
        ("lambda0=2", r"must lie in \[0, 1\]"),
    ):
        with pytest.raises(UserError, match=message):
            cases.build(METHOD, folder, target, text)
    save_domino(folder / "domino", head(30), TrainingOptions())
    with pytest.raises(UserError, match="vocab_size 30"):
        cases.build(METHOD, folder, target)
