"""LiLiCorr: its equations, its anchor vector, its three loss terms, its training, and lossless serving."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import normalize, silu

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.methods.lilicorr import METHOD
from dcoco_bench.methods.lilicorr.config import LiLiCorrConfig
from dcoco_bench.methods.lilicorr.drafter import LiLiCorrDrafter
from dcoco_bench.methods.lilicorr.head import LiLiCorr
from dcoco_bench.methods.lilicorr.layers import Layer
from dcoco_bench.methods.lilicorr.losses import forced_rows, terms
from dcoco_bench.methods.lilicorr.objective import LiLiCorrObjective
from dcoco_bench.methods.lilicorr.options import TrainingOptions
from dcoco_bench.methods.lilicorr.store import save_lilicorr
from dcoco_bench.training.batches import collate
from dcoco_bench.training.objective import Tables
from tests.methods import cases
from tests.tiny import HIDDEN, VOCAB, backbone, target_model

M, N, K, W = 3, 4, 3, 8
PUBLISHED = {
    *(f"{name}.{part}" for name in ("token_proj", "pass_hidden_proj", "feature_norm") for part in ("weight", "bias")),
    *(f"feature_mlp.{name}.{part}" for name in ("up_proj", "down_proj") for part in ("weight", "bias")),
    *("slot_embedding", "rank_embedding", "relative_slot_bias", "same_slot_bias"),
    *(f"{name}.{part}" for name in ("context_proj", "factor_input_proj") for part in ("weight", "bias")),
    *(f"{name}.{part}" for name in ("out_head", "in_head", "anchor_out_head") for part in ("weight", "bias")),
    *("output_norm.weight", "anchor_norm.weight"),
    *(f"layers.{i}.{name}.weight" for i in range(2) for name in ("attn_norm", "mlp_norm")),
    *(f"layers.{i}.attn.{name}" for i in range(2) for name in ("in_proj_weight", "in_proj_bias")),
    *(f"layers.{i}.attn.out_proj.{part}" for i in range(2) for part in ("weight", "bias")),
    *(f"layers.{i}.mlp.{n}.{part}" for i in range(2) for n in ("up_proj", "down_proj") for part in ("weight", "bias")),
}


def head(block_size: int = N + 1, slots: int = N, k: int = K, size: float = 0.4) -> LiLiCorr:
    """Every parameter away from its start, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(3)
    config = LiLiCorrConfig(
        HIDDEN,
        block_size,
        slots,
        lilicorr_candidate_topk=k,
        lilicorr_hidden_size=W,
        lilicorr_num_heads=2,
        lilicorr_factor_dim=6,
    )
    made = LiLiCorr(config, generator)
    for parameter in made.parameters():
        parameter.data += size * torch.randn(parameter.shape, generator=generator)
    return made.eval().requires_grad_(False)


def inputs(k: int = K) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings [M, N, K, d], log-probabilities best first, states [M, N, d], contexts [M, d]."""
    generator = torch.Generator().manual_seed(1)
    log_probs = torch.randn(M, N, 9, generator=generator).log_softmax(-1).topk(k).values
    shapes = ((M, N, k, HIDDEN), (M, N, HIDDEN), (M, HIDDEN))
    embeddings, hidden, context = (torch.randn(shape, generator=generator) for shape in shapes)
    return embeddings, log_probs, hidden, context


def write(folder: Path, vocabulary: Vocabulary, layout: Layout = Layout.FILL_IN, **shape: object) -> Path:
    net = backbone(layout, **shape)
    checkpoint.save(folder, net, vocabulary)
    made = head(net.config.block_size, net.config.slots, 5)
    save_lilicorr(folder / "lilicorr", made, TrainingOptions(variant="margin"))
    return folder


def test_names_and_shapes_are_the_published_ones() -> None:
    with torch.device("meta"):
        made = LiLiCorr(
            LiLiCorrConfig(
                4096,
                16,
                15,
                lilicorr_candidate_topk=8,
                lilicorr_hidden_size=1024,
                lilicorr_num_heads=8,
                lilicorr_factor_dim=1024,
            )
        )
    tensors = made.state_dict()
    assert set(tensors) == PUBLISHED
    assert tensors["slot_embedding"].shape == (1, 1, 15, 1, 1024)
    assert tensors["rank_embedding"].shape == (1, 1, 1, 8, 1024)
    assert tensors["relative_slot_bias"].shape == (8, 31)
    assert tensors["layers.0.attn.in_proj_weight"].shape == (3072, 1024)
    assert tensors["layers.0.mlp.up_proj.weight"].shape == (2048, 1024)
    assert not list(LiLiCorr(LiLiCorrConfig(8, 3, 2, lilicorr_hidden_size=8)).token_proj.parameters())


def spelt_out(made: LiLiCorr, embeddings: Tensor, log_probs: Tensor, hidden: Tensor, context: Tensor) -> list[Tensor]:
    """The equations of methods.md 8 for one block, one candidate and one pair at a time."""
    k = log_probs.shape[1]
    x = torch.empty(N * k, W)
    for s in range(N):
        for r in range(k):
            logp = log_probs[s, r]
            share = torch.tensor(r / (k - 1))
            found = torch.stack([logp, logp.exp(), logp - log_probs[s].max(), share, torch.tensor(float(r == 0))])
            known = made.feature_mlp.down_proj(silu(made.feature_mlp.up_proj(made.feature_norm(found))))
            x[s * k + r] = made.token_proj(embeddings[s, r]) + made.pass_hidden_proj(hidden[s]) + known
            x[s * k + r] += made.slot_embedding[0, 0, s, 0] + made.rank_embedding[0, 0, 0, r]
    bias = torch.empty(2, N * k, N * k)
    for i in range(N * k):
        for j in range(N * k):
            bias[:, i, j] = made.relative_slot_bias[:, i // k - j // k + N] + (i // k == j // k) * made.same_slot_bias
    for layer in made.layers:
        assert isinstance(layer, Layer)
        reference = nn.MultiheadAttention(W, 2, batch_first=True)
        reference.load_state_dict(layer.attn.state_dict())
        normed = layer.attn_norm(x)[None]
        x = x + reference(normed, normed, normed, attn_mask=bias)[0][0]
        x = x + layer.mlp.down_proj(silu(layer.mlp.up_proj(layer.mlp_norm(x))))
    a = made.anchor_norm(made.context_proj(context))
    y = made.output_norm(x)
    f = [silu(made.factor_input_proj(torch.cat([row, a, row * a]))) for row in y]
    out, into = [normalize(made.out_head(v), dim=0) for v in f], [normalize(made.in_head(v), dim=0) for v in f]
    start = normalize(made.anchor_out_head(a), dim=0)
    first = torch.stack([8.0 * start @ into[r] for r in range(k)])
    pairs = torch.empty(N - 1, k, k)
    for s in range(N - 1):
        for i in range(k):
            for j in range(k):
                pairs[s, i, j] = 8.0 * out[s * k + i] @ into[(s + 1) * k + j]
    return [first, pairs]


@pytest.mark.parametrize("k", [K, 2])
def test_scores_are_the_equations_also_for_fewer_candidates(k: int) -> None:
    made = head()
    embeddings, log_probs, hidden, context = inputs(k)
    with torch.no_grad():
        first, transitions = made.scores(made.project_tokens(embeddings), log_probs, hidden, context)
        for m in range(M):
            expected = spelt_out(made, embeddings[m], log_probs[m], hidden[m], context[m])
            torch.testing.assert_close([first[m], transitions[m]], expected, rtol=1e-4, atol=1e-4)
    assert first.std() > 0.1
    assert transitions.std() > 0.1


def test_the_anchor_vector_is_the_context_of_the_last_accepted_position(tmp_path: Path) -> None:
    """Ragged rounds whose observations reach past what is accepted, a long first one, and a row that moves."""
    target = Target(target_model())
    drafter = cases.build(METHOD, write(tmp_path, Vocabulary.full(VOCAB)), target)
    assert isinstance(drafter, LiLiCorrDrafter)
    drafter.allocate(3, 64)
    features = torch.randn(3, 40, 2 * HIDDEN, generator=torch.Generator().manual_seed(4))
    lengths = torch.tensor([17, 3, 1])
    for row in range(3):
        drafter.observe(row, features[row : row + 1, : int(lengths[row])], torch.zeros(1, dtype=torch.long))
    rows = [0, 1, 2]
    for grown in ([1, 6, 2], [4, 2, 6], [6, 6, 1]):
        drafter.propose(0, torch.full((len(rows),), 5), lengths, Sampling(), [], lambda _: None)
        last = torch.stack([features[r, int(n) - 1] for r, n in zip(rows, lengths, strict=True)])
        torch.testing.assert_close(drafter.context, drafter.backbone.context(last))
        grown = grown[: len(rows)]
        seen = torch.stack([features[r, int(n) : int(n) + max(grown)] for r, n in zip(rows, lengths, strict=True)])
        for row, count in enumerate(grown):
            seen[row, count:] = 99.0  # rejected positions: must never be read
        drafter.observe(0, seen, lengths)
        lengths = lengths + torch.tensor(grown)
        if rows == [0, 1, 2]:  # the first stream ends, the last one takes its row
            drafter.forget(0)
            drafter.move_row(2, 0, int(lengths[2]))
            rows, lengths = [2, 1], lengths[[2, 1]]


def test_training_reads_the_same_position() -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "width=8,k=4", sequences)
    assert isinstance(made, LiLiCorrObjective)
    batch = collate(sequences[:2], [torch.tensor([3, 9]), torch.tensor([5, 12])], 5, HIDDEN)
    context = made.anchor_context(batch)
    served = made.serving_backbone()
    for b in range(2):
        for block in range(2):
            raw = batch.features[b, int(batch.anchors[b, block]) - 1]
            torch.testing.assert_close(context[b, block], served.context(raw), rtol=1e-3, atol=1e-3)


def test_target_logits_are_the_lm_head_s_after_each_slot_s_prefix() -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "width=8,k=4", sequences, Vocabulary(cases.KEPT, VOCAB))
    assert isinstance(made, LiLiCorrObjective)
    batch = collate(sequences[:2], [torch.tensor([3, 9]), torch.tensor([5, 12])], 5, HIDDEN)
    ids = torch.randint(0, len(cases.KEPT), (3, 5, 4), generator=torch.Generator().manual_seed(2))
    found = made.target_logits(batch, torch.tensor([1, 2, 3]), ids)
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    for m, (b, anchor) in enumerate(((0, 9), (1, 5), (1, 12))):
        for slot in range(5):
            wanted = table[cases.KEPT[ids[m, slot]]] @ batch.final[b, anchor + slot]
            torch.testing.assert_close(found[m, slot], wanted, rtol=1e-4, atol=1e-4)


def test_the_three_terms_are_their_definitions() -> None:
    generator = torch.Generator().manual_seed(6)
    first, transitions = torch.randn(M, K, generator=generator), torch.randn(M, N - 1, K, K, generator=generator)
    wanted = torch.randn(M, N, K, generator=generator)
    ranks = torch.randint(0, K, (M, N), generator=generator)
    usable = torch.tensor([[True, True, True, True], [True, False, True, True], [False, True, True, True]])
    ce, hinge, penalty = terms(forced_rows(first, transitions, ranks), ranks, usable, wanted)
    sums, count = torch.zeros(3), 0
    for m, slot in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]:  # slots whose whole prefix is usable
        row = first[m] if slot == 0 else transitions[m, slot - 1, ranks[m, slot - 1]]
        right = int(ranks[m, slot])
        others = [row[j] for j in range(K) if j != right]
        sums[0] += row.logsumexp(0) - row[right]
        sums[1] += torch.relu(2.0 - (row[right] - torch.stack(others).max()))
        for j in range(K):
            sums[2] += row.softmax(0)[j] * torch.relu(wanted[m, slot, right] - wanted[m, slot, j])
        count += 1
    torch.testing.assert_close(torch.stack([ce, hinge, penalty]), sums / count)


def test_variants_weigh_the_terms_as_the_public_recipes_do() -> None:
    sequences = cases.chains(12)
    batch = collate(sequences[:2], [torch.tensor([4, 9, 12])] * 2, 5, HIDDEN)
    for variant, (ce, hinge, penalty) in {"base": (0.25, 0.0, 0.25), "margin": (0.125, 0.125, 0.25)}.items():
        made = cases.objective(METHOD, f"k={VOCAB},width=8,variant={variant}", sequences)
        value, parts = made.loss(batch, 0.0)
        assert min(parts["select"], parts["hinge"], parts["penalty"]) > 0
        head_part = ce * parts["select"] + hinge * parts["hinge"] + penalty * parts["penalty"]
        assert value.item() == pytest.approx(parts["ce"] + head_part, rel=1e-5)


@pytest.mark.parametrize(("layout", "kept"), [(Layout.FILL_IN, cases.KEPT), (Layout.ANCHOR_FIRST, torch.arange(VOCAB))])
def test_drafting_changes_no_token(tmp_path: Path, layout: Layout, kept: Tensor) -> None:
    folder = write(tmp_path, Vocabulary(kept, VOCAB), layout)
    assert cases.changes_no_token(METHOD, folder, (1, ""), (4, "draft=sampled,k=3"), (4, "n=3"))


def test_sampled_output_follows_the_target(tmp_path: Path) -> None:
    target = Target(target_model(vocab_size=cases.SMALL))
    folder = write(tmp_path, Vocabulary.full(cases.SMALL), vocab_size=cases.SMALL)
    drafter = cases.build(METHOD, folder, target, "k=4,draft=sampled")
    assert isinstance(drafter, LiLiCorrDrafter)
    drafter.context = torch.randn(1, HIDDEN, generator=torch.Generator().manual_seed(1)).expand(cases.ROWS, -1)
    assert cases.sampling_p_value(drafter) > 1e-3


def test_training_teaches_the_head_what_the_drafter_cannot_know(tmp_path: Path) -> None:
    sequences = cases.chains(12)
    made = cases.objective(METHOD, "k=12,width=32,blocks=8", sequences, Vocabulary(torch.arange(12), VOCAB))
    before, after = cases.train_head_alone(made, sequences, tmp_path, 80, 2e-2)
    assert before < 1.6
    assert after > before + 1.5


def test_what_is_trained_is_saved_loaded_and_served(tmp_path: Path) -> None:
    sequences = cases.teacher(tmp_path / "teacher")
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, "k=6,width=16,variant=margin", sequences)
    settings = cases.Settings(steps=40, sequences=8, anchors=8, matrix_lr=2e-2)
    trainer = cases.Trainer(made, sequences, sequences[:8], tmp_path / "run", settings)
    tau = trainer.run(lambda row: None).tau
    METHOD.save(tmp_path / "draft", made, Tables(table, table))
    target = Target(target_model())
    drafter = cases.build(METHOD, tmp_path / "draft", target, "variant=margin,width=16,scale=8")
    assert isinstance(drafter, LiLiCorrDrafter)
    assert drafter.effective_config()["k"] == 6
    for name, tensor in load_file(tmp_path / "draft" / "lilicorr" / "model.safetensors").items():
        assert torch.equal(drafter.lilicorr.state_dict()[name], tensor)
    assert tau > 1.2
    # The checkpoint is bfloat16, and so are the walk's features; drafts at near-ties may differ.
    assert cases.served_tau(drafter, target, trainer.held_out) == pytest.approx(tau, rel=0.05)


def test_misfits_are_one_clear_line(tmp_path: Path) -> None:
    target = Target(target_model())
    folder = write(tmp_path, Vocabulary.full(VOCAB))
    for text, message in (
        ("k=6", "trained with k=5"),
        ("variant=base", "trained with variant=margin"),
        ("width=16", "trained with width=8"),
        ("scale=4", "trained with scale=8"),
    ):
        with pytest.raises(UserError, match=message):
            cases.build(METHOD, folder, target, text)
    with pytest.raises(UserError, match="multiple of 4"):
        cases.objective(METHOD, "width=30", cases.chains(12))
    save_lilicorr(folder / "lilicorr", head(7, 6), TrainingOptions())
    with pytest.raises(UserError, match="block_size 7"):
        cases.build(METHOD, folder, target)
    (folder / "lilicorr" / "config.json").write_text('{"hidden_size": 32, "slots": "5"}')
    with pytest.raises(UserError, match="block_size, slots, lilicorr_candidate_topk"):
        cases.build(METHOD, folder, target)
