"""DSpark: its three heads, its walk, its loss, its training, and lossless serving."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.method import MethodSpec
from dcoco_bench.methods.dspark import METHOD
from dcoco_bench.methods.dspark.drafter import log_odds, stepwise
from dcoco_bench.methods.dspark.heads import HEADS, DSparkConfig, DSparkHead
from dcoco_bench.methods.dspark.objective import DSparkObjective
from dcoco_bench.methods.dspark.options import TrainingOptions
from dcoco_bench.methods.dspark.store import save_dspark
from dcoco_bench.training.batches import anchor_range, collate
from dcoco_bench.training.objective import Tables
from tests.methods import cases
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

R = 7
METHOD_DEFAULTS = MethodSpec.parse("dspark").resolve(METHOD.params)


def head(kind: str = "vanilla", vocab: int = VOCAB, previous: int | None = None, size: float = 1.0) -> DSparkHead:
    generator = torch.Generator().manual_seed(3)
    made = DSparkHead(DSparkConfig(HIDDEN, vocab, previous or vocab, R, kind), generator)
    for parameter in made.parameters():
        parameter.data.normal_(std=0.5, generator=generator)
    made.markov_head.markov_w2.weight.data.mul_(2 * size)
    return made.eval().requires_grad_(False)


def write(
    folder: Path, vocabulary: Vocabulary, layout: Layout = Layout.FILL_IN, kind: str = "vanilla", **shape: object
) -> Path:
    checkpoint.save(folder, backbone(layout, **shape), vocabulary)
    made = head(kind, len(vocabulary), len(vocabulary) + vocabulary.pruned, size=2.0)
    save_dspark(folder / "dspark", made, TrainingOptions(tv=0.5), [2.0] * layout.slots(6))
    return folder


@pytest.mark.parametrize(
    ("hidden", "extra"), [(4096, {"gated": 1_114_368, "rnn": 3_539_712}), (2560, {"gated": 721_152, "rnn": 2_360_064})]
)
def test_sizes_and_names_are_the_published_ones(hidden: int, extra: dict[str, int]) -> None:
    for kind in HEADS:
        with torch.device("meta"):
            made = DSparkHead(DSparkConfig(hidden, 151_936, 151_936, 256, kind))
        markov = sum(p.numel() for p in made.markov_head.parameters())
        assert markov == 77_791_232 + extra.get(kind, 0)
        assert sum(p.numel() for p in made.confidence_head.parameters()) == hidden + 257
        names = {"markov_head.markov_w1.weight", "markov_head.markov_w2.weight"}
        names |= {"confidence_head.proj.weight", "confidence_head.proj.bias"}
        own = {"gated": "gate_proj", "rnn": "joint_proj"}.get(kind)
        names |= {f"markov_head.{own}.weight", f"markov_head.{own}.bias"} if own else set()
        assert set(made.state_dict()) == names


def _by_hand(made: DSparkHead, hidden: Tensor, before: list[int]) -> list[Tensor]:
    """Corrections of slots 1..N of one block after the tokens `before` each (rows of W_1), from the weights alone."""
    m = made.markov_head
    state, found = torch.zeros(R), []
    for h, token in zip(hidden, before, strict=True):
        e = m.markov_w1.weight[token]
        if m.kind == "vanilla":
            reading = e
        elif m.kind == "gated":
            reading = torch.sigmoid(m.gate_proj.weight @ torch.cat([h, e]) + m.gate_proj.bias) * e
        else:
            z = m.joint_proj.weight @ torch.cat([state, e, h]) + m.joint_proj.bias
            gate, candidate, output = torch.sigmoid(z[:R]), torch.tanh(z[R : 2 * R]), torch.tanh(z[2 * R :])
            reading, state = output, gate * state + (1 - gate) * candidate  # the output saw the state before this slot
        found.append(m.markov_w2.weight @ reading)
    return found


@pytest.mark.parametrize("kind", HEADS)
def test_the_stepwise_walk_is_the_equation_and_the_unrolled_training_pass(kind: str) -> None:
    made, vocabulary = head(kind), Vocabulary.full(VOCAB)
    hidden = torch.randn(2, 4, HIDDEN, generator=torch.Generator().manual_seed(1))
    before = torch.tensor([[5, 9, 9, 30], [17, 0, 44, 2]])  # the anchor, then slots 1..3
    by_hand = torch.stack([torch.stack(_by_hand(made, hidden[b], before[b].tolist())) for b in range(2)])
    unrolled = made.markov_head.markov_w2(made.markov_head.unrolled(made.embed(before, vocabulary), hidden))
    torch.testing.assert_close(unrolled, by_hand, rtol=1e-4, atol=1e-4)
    correct = stepwise(made, vocabulary, hidden)
    for slot in range(4):
        step = correct(slot, before[:, slot])
        assert step is not None
        torch.testing.assert_close(step, by_hand[:, slot], rtol=1e-4, atol=1e-4)


def test_tokens_outside_a_pruned_vocabulary_share_the_last_row() -> None:
    made, vocabulary = head(vocab=len(cases.KEPT), previous=len(cases.KEPT) + 1), Vocabulary(cases.KEPT, VOCAB)
    rows = made.embed(torch.tensor([0, 3, 59, 60]), vocabulary)
    table = made.markov_head.markov_w1.weight
    assert torch.equal(rows, table[[0, -1, -1, 30]])
    whole = head(vocab=len(cases.KEPT), previous=VOCAB)  # a published draft keeps a row for every token
    assert torch.equal(whole.embed(torch.tensor([0, 3]), vocabulary), whole.markov_head.markov_w1.weight[[0, 3]])


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("layout", list(Layout))
def test_training_corrects_slot_k_with_the_token_before_it(kind: str, layout: Layout) -> None:
    sequences = cases.chains(VOCAB)
    made = cases.objective(METHOD, f"rank=7,head={kind}", sequences, layout=layout)
    assert isinstance(made, DSparkObjective)
    made.dspark.load_state_dict(head(kind).state_dict())
    batch = collate(sequences[:2], [torch.tensor([4, 9]), torch.tensor([5, 7])], made.config.slots, HIDDEN)
    hidden = made.slot_hidden(batch)
    logits = made.unary_logits(hidden)
    corrected = made.corrected(hidden, made.previous(batch))
    for row, block in ((0, 1), (1, 0)):
        before = [int(batch.anchor_ids[row, block]), *batch.labels[row, block, :-1].tolist()]
        by_hand = torch.stack(_by_hand(made.dspark, hidden[row, block], before))
        torch.testing.assert_close(corrected[row, block], logits[row, block] + by_hand, rtol=1e-4, atol=1e-4)


def test_a_zero_output_leaves_the_drafter_s_argmax(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    hidden, anchors = torch.randn(4, 5, HIDDEN), torch.tensor([1, 2, 3, 4])
    argmax = (hidden @ target.head.T).argmax(-1)
    tokens = cases.build(METHOD, folder, target).choose(hidden, anchors, Sampling(), []).tokens
    assert not torch.equal(tokens, argmax)
    save_dspark(folder / "dspark", head(size=0.0), TrainingOptions())
    tokens = cases.build(METHOD, folder, target).choose(hidden, anchors, Sampling(), []).tokens
    assert torch.equal(tokens, argmax)


@pytest.fixture(scope="module")
def plain() -> list[list[int]]:
    return cases.decode(None, Target(target_model()), 1)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize(
    ("layout", "kept"),
    [(Layout.FILL_IN, cases.KEPT), (Layout.ANCHOR_FIRST, torch.arange(VOCAB))],
    ids=["pruned", "full"],
)
def test_drafting_changes_no_token(
    tmp_path: Path, plain: list[list[int]], kind: str, layout: Layout, kept: Tensor
) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary(kept, VOCAB), layout, kind)
    ways = [(3, ""), (4, "threshold=0.5")]
    if kind == "vanilla":
        ways += [(1, ""), (4, "draft=sampled"), (4, "n=3"), (3, "threshold=1")]
    for concurrency, text in ways:
        assert cases.decode(cases.build(METHOD, folder, target, text), target, concurrency) == plain


def test_the_threshold_stops_at_the_first_unsure_slot(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    hidden, anchors = torch.randn(40, 5, HIDDEN), torch.arange(40)
    drafter = cases.build(METHOD, folder, target, "threshold=0.4")
    proposal = drafter.choose(hidden, anchors, Sampling(), [])
    assert proposal.lengths is not None
    made, before = drafter.dspark, torch.cat([anchors[:, None], proposal.tokens[:, :-1]], dim=1)  # type: ignore[attr-defined]
    for row in range(40):
        expected = 0
        for slot in range(5):
            e = made.markov_head.markov_w1.weight[before[row, slot]]
            odds = (
                made.confidence_head.proj.weight[0] @ torch.cat([hidden[row, slot], e]) + made.confidence_head.proj.bias
            )
            if torch.sigmoid(odds / 2.0) < 0.4:  # the checkpoint's temperatures are 2
                break
            expected += 1
        assert int(proposal.lengths[row]) == expected
    assert set(proposal.lengths.tolist()) >= {0, 1, 5}


def test_confidences_are_float32_beside_a_bfloat16_target(tmp_path: Path) -> None:
    target = SimpleNamespace(
        embedding=torch.randn(VOCAB, HIDDEN).bfloat16(), head=torch.randn(VOCAB, HIDDEN).bfloat16()
    )
    drafter = METHOD.selection(write(tmp_path, Vocabulary.full(VOCAB)), target, METHOD_DEFAULTS | {"threshold": 0.4})
    hidden, anchors, tokens = torch.randn(8, 5, HIDDEN).bfloat16(), torch.arange(8), torch.arange(40).view(8, 5)
    odds = log_odds(drafter.dspark, drafter.vocabulary, hidden, anchors, tokens)  # type: ignore[attr-defined]
    kept = load_file(tmp_path / "dspark" / "model.safetensors")
    weight = kept["confidence_head.proj.weight"][0].double()
    before = kept["markov_head.markov_w1.weight"][torch.cat([anchors[:, None], tokens[:, :-1]], dim=1)]
    exact = torch.cat([hidden, before], dim=-1).double() @ weight + kept["confidence_head.proj.bias"].double()
    torch.testing.assert_close(odds.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("text", ["draft=sampled", "draft=sampled,threshold=0.5"])
def test_sampled_output_follows_the_target_and_a_misstated_law_is_caught(tmp_path: Path, text: str) -> None:
    target = Target(target_model(vocab_size=cases.SMALL))
    folder = write(tmp_path, Vocabulary.full(cases.SMALL), vocab_size=cases.SMALL)
    drafter = cases.build(METHOD, folder, target, text)
    assert cases.sampling_p_value(drafter) > 1e-3
    assert cases.sampling_p_value(cases.misstated(drafter)) < 1e-4


@pytest.mark.parametrize("text", ["", "threshold=0.5"])
def test_an_argmax_draft_is_a_point_mass_and_its_output_follows_the_target(tmp_path: Path, text: str) -> None:
    target = Target(target_model(vocab_size=cases.SMALL))
    folder = write(tmp_path, Vocabulary.full(cases.SMALL), vocab_size=cases.SMALL)
    drafter = cases.build(METHOD, folder, target, text)
    assert cases.sampling_p_value(drafter, sampled=False) > 1e-3
    hidden, anchors = torch.randn(4, drafter.slots, HIDDEN), torch.tensor([1, 2, 3, 4])
    generators = [torch.Generator().manual_seed(row) for row in range(4)]
    warm, cold = (drafter.choose(hidden, anchors, rule, generators) for rule in (cases.SAMPLING, Sampling()))
    assert torch.equal(warm.tokens, cold.tokens)


def test_the_loss_is_its_three_terms() -> None:
    sequences = cases.chains(12)
    generator = torch.Generator().manual_seed(4)
    for sequence in sequences:
        sequence.features[:, -HIDDEN:] = torch.randn(len(sequence.features), HIDDEN, generator=generator).bfloat16()
    batch = collate([sequences[0]], [torch.tensor([4, 16])], 5, HIDDEN)
    assert not bool(batch.supervised.all())
    values = {}
    for text in ("ce=1,tv=0,conf=0", "ce=0,tv=1,conf=0", "ce=0,tv=0,conf=1", "ce=0.1,tv=0.9,conf=1"):
        made = cases.objective(METHOD, f"rank=7,{text}", sequences)
        assert isinstance(made, DSparkObjective)
        made.dspark.load_state_dict(head().state_dict())
        values[text] = made.loss(batch, 0.0).value.item()
    hidden, before = made.slot_hidden(batch), made.previous(batch)
    logits = made.corrected(hidden, before)
    odds = made.dspark.confidence_head(hidden, before)
    sums = torch.zeros(3)
    weight = 0.0
    for block in range(2):
        for slot in range(5):
            if not batch.supervised[0, block, slot]:
                continue
            w = float(torch.exp(torch.tensor(-slot / 4.0)))
            p = logits[0, block, slot].softmax(-1)
            t = (made.head_rows @ batch.final[0, int(batch.anchors[0, block]) + slot]).softmax(-1)
            rate, c = 1 - (p - t).abs().sum() / 2, torch.sigmoid(odds[0, block, slot])
            bce = -(rate * c.log() + (1 - rate) * (1 - c).log())
            sums += w * torch.stack([-p[batch.labels[0, block, slot]].log(), (p - t).abs().sum(), bce])
            weight += w
    terms = (sums / weight).tolist()
    assert list(values.values())[:3] == pytest.approx(terms, rel=1e-4)
    assert list(values.values())[3] == pytest.approx(0.1 * terms[0] + 0.9 * terms[1] + terms[2], rel=1e-4)


def test_detached_the_confidence_does_not_reach_the_backbone() -> None:
    sequences = cases.chains(12)
    batch = collate([sequences[0]], [torch.tensor([4, 9])], 5, HIDDEN)
    gradients = []
    for text in ("conf=1", "conf=1,detach=on", "conf=5,detach=on"):
        made = cases.objective(METHOD, f"rank=7,{text}", sequences)
        made.loss(batch, 0.0).value.backward()
        assert made.backbone.fc.weight.grad is not None
        gradients.append(made.backbone.fc.weight.grad)
    assert torch.equal(gradients[1], gradients[2])
    assert not torch.allclose(gradients[0], gradients[1])


@pytest.mark.parametrize("kind", HEADS)
def test_training_teaches_the_head_what_the_drafter_cannot_know(tmp_path: Path, kind: str) -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, f"rank=16,head={kind},ce=1,tv=0,conf=0", sequences)
    before, after = cases.train_head_alone(made, sequences, tmp_path, 80, 3e-2)
    assert before < 1.5
    assert after > 4.0


def test_what_is_trained_is_calibrated_saved_loaded_and_served(tmp_path: Path) -> None:
    sequences = cases.teacher(tmp_path / "teacher")
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, "rank=8,ce=1,tv=0", sequences)
    settings = cases.Settings(steps=40, sequences=8, anchors=8, matrix_lr=2e-2)
    trainer = cases.Trainer(made, sequences, sequences[:8], tmp_path / "run", settings)
    tau = trainer.run(lambda row: None).tau
    made.eval().calibrate(trainer.held_out)
    METHOD.save(tmp_path / "draft", made, Tables(table, table))
    target = Target(target_model())
    drafter = cases.build(METHOD, tmp_path / "draft", target, "rank=8,tv=0,head=vanilla")
    for name, tensor in load_file(tmp_path / "draft" / "dspark" / "model.safetensors").items():
        assert torch.equal(drafter.dspark.state_dict()[name], tensor.float())  # type: ignore[attr-defined]
    assert drafter.effective_config()["calibrated"]
    assert tau > 1.2
    # The checkpoint is bfloat16, and so are the walk's features; drafts at near-ties may differ.
    assert cases.served_tau(drafter, target, trainer.held_out) == pytest.approx(tau, rel=0.05)
    cautious = cases.build(METHOD, tmp_path / "draft", target, "threshold=0.9")
    assert 1.0 <= cases.served_tau(cautious, target, trainer.held_out) <= tau


def test_a_draft_is_the_self_conditioned_walk_not_the_forced_one() -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "rank=7", sequences)
    assert isinstance(made, DSparkObjective)
    made.dspark.load_state_dict(head(size=2.0).state_dict())
    first, end = anchor_range(sequences[1].answer)
    batch = collate([sequences[1]], [torch.arange(first, end)], 5, HIDDEN)
    drafted = made.draft(batch)
    assert not torch.equal(drafted, made.corrected(made.slot_hidden(batch), made.previous(batch)).argmax(-1))
    batch.labels = (batch.labels + 1) % VOCAB
    assert torch.equal(made.draft(batch), drafted)


def test_misfits_are_one_clear_line(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    for text, message in (
        ("rank=8", "trained with rank=7"),
        ("head=rnn", "trained with head=vanilla"),
        ("tv=0.9", "trained with tv=0.5"),
        ("draft=random", "must be one of argmax, sampled"),
        ("threshold=1.5", r"must lie in \[0, 1\]"),
    ):
        with pytest.raises(UserError, match=message):
            cases.build(METHOD, folder, target, text)
    with pytest.raises(UserError, match="vLLM verifies whole blocks"):
        METHOD.vllm_draft(folder, METHOD_DEFAULTS | {"threshold": 0.3})
    served = METHOD.vllm_draft(folder, METHOD_DEFAULTS)
    assert served is not None
    assert served.slots == 5
    save_dspark(folder / "dspark", head(), TrainingOptions(conf=0.0))
    cases.build(METHOD, folder, target)
    with pytest.raises(UserError, match="no trained confidence head"):
        cases.build(METHOD, folder, target, "threshold=0.3")
    save_dspark(folder / "dspark", head(vocab=30), TrainingOptions())
    with pytest.raises(UserError, match="vocab_size 30"):
        cases.build(METHOD, folder, target)
    save_dspark(folder / "dspark", head(), TrainingOptions(), [1.0, 2.0])
    with pytest.raises(UserError, match="confidence_temperatures must be 5 numbers"):
        cases.build(METHOD, folder, target)
