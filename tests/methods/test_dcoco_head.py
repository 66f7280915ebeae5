"""DCOCO's corrector: sizes, the factorised scorer, the zero start, ablations (methods.md 6.1, 6.6, 6.7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dcoco_bench.drafting.lattice import top_candidates
from dcoco_bench.drafting.walks import Rule, select
from dcoco_bench.methods.dcoco import pairs
from dcoco_bench.methods.dcoco.head import Corrector, CorrectorConfig, normalised

D, K, N, B = 24, 5, 6, 3
CONFIG = CorrectorConfig(D, width=8, mlp_width=12)


def trained(config: CorrectorConfig = CONFIG, seed: int = 0) -> Corrector:
    """Every parameter away from its start, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    corrector = Corrector(config, generator)
    for parameter in corrector.parameters():
        parameter.data += 0.4 * torch.randn(parameter.shape, generator=generator)
    return corrector.eval().requires_grad_(False)


def inputs(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Candidate embeddings [B, N, K, d], of another scale than the states [B, N, d], as in a real target."""
    generator = torch.Generator().manual_seed(seed)
    return 0.02 * torch.randn(B, N, K, D, generator=generator), 30 * torch.randn(B, N, D, generator=generator)


@pytest.mark.parametrize(("hidden", "count"), [(4096, 2_229_505), (2560, 1_443_073)])
def test_sizes_are_the_published_ones(hidden: int, count: int) -> None:
    with torch.device("meta"):
        corrector = Corrector(CorrectorConfig(hidden))
    assert sum(p.numel() for p in corrector.parameters()) == count
    names = {name.split(".")[0] for name, _ in corrector.named_parameters()}
    assert names == {"emb_proj", "hid_proj", "fuse", "z_norm", "pair_proj", "mlp_in", "mlp_out"}


def spelt_out(corrector: Corrector, embeddings: Tensor, hidden: Tensor) -> Tensor:
    """The equations of methods.md 6.1, one pair at a time, through whole weights."""
    b = normalised(corrector.emb_proj(embeddings))
    g = normalised(corrector.hid_proj(hidden))[..., None, :].expand_as(b)
    z = corrector.z_norm(corrector.fuse(torch.cat([b, g], dim=-1)))
    out = torch.empty(B, N - 1, K, K)
    for p in range(N - 1):
        state = corrector.pair_proj(torch.cat([hidden[:, p], hidden[:, p + 1]], dim=-1))
        for a in range(K):
            for c in range(K):
                out[:, p, a, c] = corrector.direct(z[:, p, a], z[:, p + 1, c], state)
    return out


def test_the_factorised_scorer_is_the_direct_one() -> None:
    corrector, (embeddings, hidden) = trained(), inputs()
    factorised = corrector(corrector.token_half(embeddings), hidden)
    assert factorised.abs().max() > 0.1
    torch.testing.assert_close(factorised, spelt_out(corrector, embeddings, hidden), rtol=1e-4, atol=1e-4)


def test_scores_in_pieces_are_the_scores_and_so_are_their_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, hidden = inputs()
    found = []
    for size in (1 << 26, 4 * K * K * 12):
        monkeypatch.setattr(pairs, "PIECE", size)
        monkeypatch.setattr(pairs, "CPU_PIECE", size)
        corrector = trained()
        served = corrector(corrector.token_half(embeddings), hidden)
        corrector.requires_grad_(True)
        scores = corrector(corrector.token_half(embeddings), hidden)
        torch.testing.assert_close(scores, served)
        scores.square().sum().backward()
        found.append([scores.detach(), *(p.grad for p in corrector.parameters())])
    for whole, piecewise in zip(*found, strict=True):
        assert whole is not None
        torch.testing.assert_close(piecewise, whole, rtol=1e-4, atol=1e-4)


def test_the_table_over_the_vocabulary_holds_the_same_token_halves() -> None:
    corrector = trained()
    table = torch.randn(40, D)
    ids = torch.randint(0, 40, (B, N, K))
    torch.testing.assert_close(corrector.token_half(table)[ids], corrector.token_half(table[ids]))


def test_at_the_start_every_walk_is_the_drafter_s_argmax() -> None:
    corrector = Corrector(CONFIG)
    logits = torch.randn(B, N, 40)
    logits[0, 2, [8, 4, 30]] = 7.0
    found = top_candidates(logits, K)
    embeddings, hidden = inputs()
    with torch.no_grad():
        first, transitions = corrector.scores(found.logits, corrector.token_half(embeddings), hidden)
    assert torch.equal(transitions, found.logits[:, 1:, None, :].expand_as(transitions))
    for rule in Rule:
        assert torch.equal(found.pick(select(rule, first, transitions, 0.75)), logits.argmax(-1))


def test_the_first_step_moves_the_output_layer_and_the_second_everything() -> None:
    corrector, (embeddings, hidden) = Corrector(CONFIG), inputs()
    optimizer = torch.optim.AdamW(corrector.parameters(), lr=0.1)
    moved = []
    for _ in range(2):
        optimizer.zero_grad()
        corrector(corrector.token_half(embeddings), hidden).sub(1.0).square().mean().backward()
        moved.append({name for name, p in corrector.named_parameters() if p.grad is not None and p.grad.any()})
        optimizer.step()
    assert moved == [{"mlp_out.weight", "mlp_out.bias"}, {name for name, _ in corrector.named_parameters()}]


def corrections(corrector: Corrector, **ablation: object) -> Tensor:
    embeddings, hidden = inputs()
    corrector.config = replace(corrector.config, **ablation)  # type: ignore[arg-type]
    return corrector(corrector.token_half(embeddings), hidden)


def test_zero_candidates_leave_the_drafter_s_argmax() -> None:
    delta = corrections(trained(), zero="z")
    torch.testing.assert_close(delta, delta[..., :1, :1].expand_as(delta))
    assert delta.abs().max() > 0.1
    found = top_candidates(torch.randn(B, N, 40), K)
    walked = select(Rule.GREEDY, found.logits[:, 0], found.logits[:, 1:, None, :] + delta, 0.75)
    assert not walked.any()


def test_each_ablation_silences_its_own_input() -> None:
    embeddings, hidden = inputs()
    other_embeddings, other_hidden = inputs(seed=7)

    def moved(by_embeddings: bool, **ablation: object) -> bool:
        corrector = trained()
        corrector.config = replace(corrector.config, **ablation)  # type: ignore[arg-type]
        e, h = (other_embeddings, hidden) if by_embeddings else (embeddings, other_hidden)
        before = corrector(corrector.token_half(embeddings), hidden)
        return not torch.allclose(before, corrector(corrector.token_half(e), h), atol=1e-6)

    assert moved(True)
    assert moved(False)
    assert not moved(True, zero="token")
    assert moved(False, zero="token")
    assert moved(False, zero="state")  # the pair state still reads the hidden states
    assert not moved(False, zero="state", pair=False)
    assert moved(True, zero="state", pair=False)
    assert not torch.allclose(corrections(trained()), corrections(trained(), pair=False))


def test_the_anchor_s_transition_corrects_slot_one_only_when_it_is_on() -> None:
    corrector, (embeddings, hidden) = trained(replace(CONFIG, first=True)), inputs()
    halves, logits = corrector.token_half(embeddings), torch.randn(B, N, K)
    anchors = corrector.token_half(torch.randn(B, D))
    plain, transitions = corrector.scores(logits, halves, hidden)
    scored, same = corrector.scores(logits, halves, hidden, anchors)
    assert torch.equal(plain, logits[:, 0])
    assert torch.equal(transitions, same)
    assert (scored - plain).abs().max() > 0.1
    z = corrector.represent(halves[:, 0], corrector.state_half(hidden[:, 0])[:, None])
    anchor = corrector.represent(anchors, corrector._state_part(corrector.anchor_state))
    state = corrector.pair_proj(torch.cat([torch.zeros_like(hidden[:, 0]), hidden[:, 0]], dim=-1))
    expected = corrector.direct(anchor[:, None].expand_as(z), z, state[:, None].expand_as(z))
    torch.testing.assert_close(scored - plain, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 12.0, 300.0])
def test_pairs_by_exponentials_are_pairs_by_silu_whatever_their_size(scale: float) -> None:
    """Small, near the switch, and past what exp can hold in float32."""
    x, y, weight = scale * torch.randn(40, K, 12), scale * torch.randn(40, K, 12), torch.randn(12)
    bias = torch.tensor([0.5])
    expected = torch.nn.functional.silu((x[:, :, None] + y[:, None]).double()) @ weight.double() + 0.5
    served = pairs.score_pairs(x, y, weight, bias)
    torch.testing.assert_close(served.double(), expected, rtol=1e-5, atol=1e-5 * scale)
