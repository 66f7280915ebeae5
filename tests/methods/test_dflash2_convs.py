"""DFlash2's convolutions: their equation, the identity start, cached serving, and the way to disk and back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.checkpoint import read_tensors
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.methods.dflash2 import METHOD
from dcoco_bench.methods.dflash2.convs import GroupedConv, add_convs, conv_shape
from dcoco_bench.methods.dflash2.objective import DFlash2Objective
from dcoco_bench.training.blocks import block_hidden
from dcoco_bench.training.objective import Tables
from tests.methods import cases
from tests.tiny import HIDDEN, VOCAB, backbone, target_model


def trained(net: BlockBackbone) -> BlockBackbone:
    """Every convolution away from the identity."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in add_convs(net).named_parameters():
        if "_conv." in name:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return net


def test_sizes_are_the_published_ones() -> None:
    with torch.device("meta"):
        assert 10 * sum(p.numel() for p in GroupedConv(4096).parameters()) == 42_106_880
        assert 10 * sum(p.numel() for p in GroupedConv(2560).parameters()) + 78_446_592 == 94_932_992


@pytest.mark.parametrize("side", [0, 1])
def test_it_is_the_equation(side: int) -> None:
    generator = torch.Generator().manual_seed(1)
    conv = GroupedConv(6, taps=3, group=2).requires_grad_(False)
    for parameter in conv.parameters():
        parameter.data.normal_(generator=generator)
    u, v = torch.randn(2, 5, 6, generator=generator), torch.randn(2, 5, 6, generator=generator)
    found = conv(u, v, side)
    for b in range(2):
        for i in range(5):
            delta = (conv.kernel_projection.weight @ u[b, i]).view(2, 3, 3)
            for c in range(6):
                taps = range(min(3, i + 1))
                expected = sum((conv.base_kernel[side, t, c] + delta[side, t, c // 2]) * v[b, i - t, c] for t in taps)
                assert found[b, i, c].item() == pytest.approx(float(expected), rel=1e-4, abs=1e-5)


def test_untrained_they_change_nothing_and_trained_only_what_is_inside_a_block() -> None:
    features, anchors = torch.randn(1, 20, 2 * HIDDEN), torch.tensor([[5, 12]])
    block = torch.randn(1, 2, 6, HIDDEN)
    plain = block_hidden(backbone(), features, anchors, block)
    torch.testing.assert_close(block_hidden(add_convs(backbone()), features, anchors, block), plain)
    convolved = block_hidden(trained(backbone()), features, anchors, block)
    assert not torch.allclose(convolved, plain, atol=1e-2)
    block[0, 0] += 1.0
    moved = block_hidden(trained(backbone()), features, anchors, block)
    torch.testing.assert_close(moved[0, 1], convolved[0, 1])


def test_cached_rounds_equal_the_one_shot_pass() -> None:
    net, table = trained(backbone()), torch.randn(VOCAB, HIDDEN)
    drafter = BlockDrafter(net, Vocabulary.full(VOCAB), table, table)
    drafter.allocate(2, 64)
    features, lengths, anchors = torch.randn(2, 40, 2 * HIDDEN), torch.tensor([7, 11]), torch.tensor([3, 9])
    for row in range(2):
        drafter.observe(row, features[row : row + 1, : int(lengths[row])], torch.zeros(1, dtype=torch.long))
    seen: list[torch.Tensor] = []
    drafter.choose = lambda hidden, *_: seen.append(hidden) or BlockDrafter.choose(drafter, hidden, *_)  # type: ignore
    drafter.propose(0, anchors, lengths, Sampling(), [], lambda _: None)
    block = torch.full((2, 1, 6), net.config.mask_token_id)
    block[:, 0, 0] = anchors
    expected = block_hidden(net, features, lengths[:, None], table[block])[:, 0, 1:]
    torch.testing.assert_close(seen[0], expected, rtol=1e-4, atol=1e-5)


def test_they_are_trained_saved_under_published_names_and_served(tmp_path: Path) -> None:
    sequences = cases.teacher(tmp_path / "teacher")
    table = target_model().get_input_embeddings().weight.detach()  # type: ignore[union-attr]
    made = cases.objective(METHOD, "k=6,rank=8,conv=on", sequences)
    assert isinstance(made, DFlash2Objective)
    settings = cases.Settings(steps=30, sequences=8, anchors=8, matrix_lr=2e-2)
    trainer = cases.Trainer(made, sequences, sequences[:8], tmp_path / "run", settings)
    tau = trainer.run(lambda row: None).tau
    METHOD.save(tmp_path / "draft", made, Tables(table, table))
    tensors = read_tensors(tmp_path / "draft")
    for layer in range(2):
        for name in ("attention_conv", "mlp_conv"):
            assert tensors[f"layers.{layer}.{name}.base_kernel"].shape == (2, 2, HIDDEN)
            assert tensors[f"layers.{layer}.{name}.kernel_projection.weight"].abs().max() > 0
    target = Target(target_model())
    drafter = cases.build(METHOD, tmp_path / "draft", target, "conv=on")
    assert conv_shape(drafter.backbone) == (2, 16)
    assert cases.served_tau(drafter, target, trainer.held_out) == pytest.approx(tau, rel=0.05)
    with pytest.raises(UserError, match="trained with conv=on"):
        cases.build(METHOD, tmp_path / "draft", target, "conv=off")
