"""DFlash2's selector: its equation, its sizes, its walk, its training, and lossless serving."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.lattice import top_candidates
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.drafting.walks import greedy
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.methods.dflash2 import METHOD
from dcoco_bench.methods.dflash2.head import CandidateSelector, SelectorConfig
from dcoco_bench.methods.dflash2.objective import DFlash2Objective, with_gold
from dcoco_bench.methods.dflash2.options import TrainingOptions
from dcoco_bench.methods.dflash2.store import save_selector
from dcoco_bench.training.batches import Sequence, anchor_range, collate
from dcoco_bench.training.objective import Tables
from dcoco_bench.training.scaling import FeatureScale
from tests.methods import cases
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

N, K, RANK, V = 4, 5, 6, 30


def selector(vocab: int = V, hidden: int = HIDDEN, size: float = 1.0) -> CandidateSelector:
    generator = torch.Generator().manual_seed(3)
    made = CandidateSelector(SelectorConfig(hidden, vocab, RANK), generator)
    made.successor_codebook.data.normal_(std=size, generator=generator)
    return made.eval().requires_grad_(False)


def write(folder: Path, vocabulary: Vocabulary, layout: Layout = Layout.FILL_IN, **shape: object) -> Path:
    checkpoint.save(folder, backbone(layout, **shape), vocabulary)
    save_selector(folder / "candidate_selector", selector(len(vocabulary), size=2.0), 5, TrainingOptions(gold="insert"))
    return folder


@pytest.mark.parametrize(("vocab", "hidden", "count"), [(151_936, 4096, 78_839_808), (151_936, 2560, 78_446_592)])
def test_sizes_and_names_are_the_published_ones(vocab: int, hidden: int, count: int) -> None:
    with torch.device("meta"):
        made = CandidateSelector(SelectorConfig(hidden, vocab, 256))
    assert sum(p.numel() for p in made.parameters()) == count == vocab * 256 * 2 + 256 * hidden
    assert set(made.state_dict()) == {"predecessor_codebook", "successor_codebook", "hidden_projection.weight"}


def test_edges_are_the_equation_and_the_walk_is_its_step_by_step_argmax() -> None:
    made, generator = selector(), torch.Generator().manual_seed(1)
    logits, hidden = torch.randn(3, N, V, generator=generator), torch.randn(3, N, HIDDEN, generator=generator)
    found, anchors = top_candidates(logits, K), torch.tensor([4, 17, -1])
    first, transitions = made.scores(found.logits, found.ids, hidden, anchors)
    a, b, w = made.predecessor_codebook, made.successor_codebook, made.hidden_projection.weight

    def edge(row: int, slot: int, before: int, rank: int) -> torch.Tensor:
        left = a[before] * (w @ hidden[row, slot]) if before >= 0 else torch.zeros(RANK)
        return found.logits[row, slot, rank] + left @ b[int(found.ids[row, slot, rank])]

    for row in range(3):
        expected, walked, before = [], [], int(anchors[row])
        for slot in range(N):
            scores = torch.stack([edge(row, slot, before, rank) for rank in range(K)])
            forced = made.edges(found.logits, found.ids, hidden, torch.full((3, N), before))[row, slot]
            torch.testing.assert_close(forced, scores)
            expected.append(scores)
            walked.append(int(scores.argmax()))
            before = int(found.ids[row, slot, walked[-1]])
        torch.testing.assert_close(first[row], expected[0])
        for slot in range(1, N):
            torch.testing.assert_close(transitions[row, slot - 1, walked[slot - 1]], expected[slot])
        assert greedy(first, transitions)[row].tolist() == walked
    assert torch.equal(first[2], found.logits[2, 0])  # an anchor outside the draft vocabulary
    assert not torch.equal(greedy(first, transitions), torch.zeros(3, N, dtype=torch.long))


def test_zero_codebooks_leave_the_drafter_s_argmax_and_training_starts_there(tmp_path: Path) -> None:
    target = Target(target_model())
    plain = checkpoint.load(write(tmp_path, Vocabulary.full(VOCAB)))[0]
    drafter = cases.build(METHOD, tmp_path, target)
    fresh = CandidateSelector(SelectorConfig(HIDDEN, VOCAB, RANK), torch.Generator().manual_seed(0))
    hidden = torch.randn(4, plain.config.slots, HIDDEN)
    anchors = torch.tensor([1, 2, 3, 4])
    argmax = (hidden @ target.head.T).argmax(-1)
    assert not torch.equal(drafter.choose(hidden, anchors, Sampling(), []).tokens, argmax)
    drafter.selector = fresh  # type: ignore[attr-defined]
    assert torch.equal(drafter.choose(hidden, anchors, Sampling(), []).tokens, argmax)


@pytest.mark.parametrize(
    ("layout", "kept"),
    [(Layout.FILL_IN, cases.KEPT), (Layout.ANCHOR_FIRST, torch.arange(VOCAB))],
    ids=["pruned", "full"],
)
def test_drafting_changes_no_token(tmp_path: Path, layout: Layout, kept: torch.Tensor) -> None:
    folder = write(tmp_path, Vocabulary(kept, VOCAB), layout)
    assert cases.changes_no_token(METHOD, folder, (1, ""), (4, "draft=sampled,k=3"), (4, "n=3"))


def test_sampled_output_follows_the_target_and_a_misstated_law_is_caught(tmp_path: Path) -> None:
    target = Target(target_model(vocab_size=cases.SMALL))
    folder = write(tmp_path, Vocabulary.full(cases.SMALL), vocab_size=cases.SMALL)
    drafter = cases.build(METHOD, folder, target, "k=4,draft=sampled")
    assert cases.sampling_p_value(drafter) > 1e-3
    assert cases.sampling_p_value(cases.misstated(drafter)) < 1e-6


def test_a_sampled_proposal_states_its_law_over_the_target_s_vocabulary(tmp_path: Path) -> None:
    target = Target(target_model())
    drafter = cases.build(METHOD, write(tmp_path, Vocabulary(cases.KEPT, VOCAB)), target, "draft=sampled")
    hidden, generators = torch.randn(2, 5, HIDDEN), [torch.Generator().manual_seed(i) for i in range(2)]
    proposal = drafter.choose(hidden, torch.tensor([2, 3]), Sampling(temperature=0.5), generators)
    assert proposal.probs is not None
    torch.testing.assert_close(proposal.probs.sum(-1), torch.ones(2, 5))
    assert bool((proposal.probs.gather(2, proposal.tokens[..., None]) > 0).all())
    assert not proposal.probs[..., 1::2].any()
    assert int((proposal.probs > 0).sum(-1).max()) <= 5


def test_missing_gold_is_dropped_or_inserted() -> None:
    logits = torch.tensor([[[5.0, 4.0, 3.0, 2.0, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0]]])
    found = top_candidates(logits, 2)
    inserted = with_gold(found, logits, torch.tensor([[3, 1, -1]]))
    assert inserted.ids.tolist() == [[[0, 3], [0, 1], [0, 1]]]
    assert inserted.logits.tolist() == [[[5.0, 2.0], [5.0, 4.0], [5.0, 4.0]]]


def test_the_loss_is_the_weighted_mean_over_slots_whose_gold_is_a_candidate() -> None:
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    vocabulary = Vocabulary(cases.KEPT, VOCAB)
    sequence = cases.chains(VOCAB)[0]
    batch = collate([sequence], [torch.tensor([4, 9, 16])], 5, HIDDEN)
    losses = {}
    for gold in ("drop", "insert"):
        made = DFlash2Objective(
            backbone(),
            Tables(table, table),
            vocabulary,
            FeatureScale.identity(2 * HIDDEN),
            SelectorConfig(HIDDEN, len(vocabulary), RANK),
            k=8,
            options=TrainingOptions(gold=gold),
        )
        made.candidate_selector.load_state_dict(selector(len(vocabulary)).state_dict())
        hidden = made.slot_hidden(batch)
        logits = made.unary_logits(hidden)
        value, _ = made.selector_loss(hidden, logits, batch)
        total = weight = 0.0
        s = made.candidate_selector
        for block in range(3):
            for slot in range(5):
                ids = logits[0, block, slot].topk(8).indices.tolist()
                label = int(vocabulary.to_draft(batch.labels[0, block, slot]))
                before = batch.anchor_ids[0, block] if slot == 0 else batch.labels[0, block, slot - 1]
                if not batch.supervised[0, block, slot] or label < 0 or (gold == "drop" and label not in ids):
                    continue
                ids = ids if label in ids else [*ids[:-1], label]
                p = int(vocabulary.to_draft(before))
                left = s.predecessor_codebook[p] * (s.hidden_projection.weight @ hidden[0, block, slot])
                scores = logits[0, block, slot, ids] + s.successor_codebook[ids] @ (left if p >= 0 else 0 * left)
                w = float(torch.exp(torch.tensor(-slot / 4.0)))
                total += w * (scores.logsumexp(-1) - scores[ids.index(label)]).item()
                weight += w
        assert weight > 0
        assert value.item() == pytest.approx(total / weight, rel=1e-4)
        losses[gold] = value.item()
    assert losses["drop"] != losses["insert"]


def test_detached_the_selector_s_loss_does_not_reach_the_backbone() -> None:
    sequences = cases.chains(12)
    batch = collate([sequences[0]], [torch.tensor([4, 9])], 5, HIDDEN)
    gradients = []
    for text in ("k=61,beta=1", "k=61,beta=1,detach=on", "k=61,beta=5,detach=on"):
        made = cases.objective(METHOD, text, sequences)
        made.loss(batch, 0.0).value.backward()
        assert made.backbone.fc.weight.grad is not None
        gradients.append(made.backbone.fc.weight.grad)
    assert torch.equal(gradients[1], gradients[2])
    assert not torch.allclose(gradients[0], gradients[1])


def test_training_teaches_the_selector_what_the_drafter_cannot_know(tmp_path: Path) -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, f"k={VOCAB},rank=16", sequences)
    before, after = cases.train_head_alone(made, sequences, tmp_path, 60, 3e-2)
    assert before < 1.5
    assert after > 4.0


def test_what_is_trained_is_saved_loaded_and_served(tmp_path: Path) -> None:
    sequences = cases.teacher(tmp_path / "teacher")
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, "k=6,rank=8,gold=insert", sequences)
    settings = cases.Settings(steps=40, sequences=8, anchors=8, matrix_lr=2e-2)
    trainer = cases.Trainer(made, sequences, sequences[:8], tmp_path / "run", settings)
    tau = trainer.run(lambda row: None).tau
    METHOD.save(tmp_path / "draft", made, Tables(table, table))
    target = Target(target_model())
    drafter = cases.build(METHOD, tmp_path / "draft", target, "gold=insert,rank=8")
    assert drafter.effective_config()["k"] == 6
    for name, tensor in load_file(tmp_path / "draft" / "candidate_selector" / "model.safetensors").items():
        assert torch.equal(drafter.selector.state_dict()[name], tensor)  # type: ignore[attr-defined]
    assert tau > 1.2
    # The checkpoint is bfloat16, and so are the walk's features; drafts at near-ties may differ.
    assert cases.served_tau(drafter, target, trainer.held_out) == pytest.approx(tau, rel=0.05)


def test_a_draft_is_the_self_conditioned_walk_not_the_forced_one() -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "k=8,rank=6", sequences)
    assert isinstance(made, DFlash2Objective)
    made.candidate_selector.successor_codebook.data.normal_(generator=torch.Generator().manual_seed(9))
    sequence: Sequence = sequences[1]
    first, end = anchor_range(sequence.answer)
    batch = collate([sequence], [torch.arange(first, end)], 5, HIDDEN)
    drafted = made.draft(batch)
    batch.labels = (batch.labels + 1) % VOCAB
    assert torch.equal(made.draft(batch), drafted)
    assert not torch.equal(drafted, made.unary_logits(made.slot_hidden(batch)).argmax(-1))


def test_misfits_are_one_clear_line(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    for text, message in (
        ("k=62", "vocabulary has 61"),
        ("gold=drop", "trained with gold=insert"),
        ("rank=7", "trained with rank=6"),
        ("draft=random", "must be one of argmax, sampled"),
    ):
        with pytest.raises(UserError, match=message):
            cases.build(METHOD, folder, target, text)
    save_selector(folder / "candidate_selector", selector(30), 5, TrainingOptions())
    with pytest.raises(UserError, match="vocab_size 30"):
        cases.build(METHOD, folder, target)
