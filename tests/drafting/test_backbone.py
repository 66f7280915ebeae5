"""The drafter's cached serving rounds against its one-shot training pass (methods.md 12.1)."""

from __future__ import annotations

import pytest
import torch

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.block_drafter import BlockDrafter
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.training.blocks import block_hidden
from tests.tiny import HIDDEN, VOCAB, backbone


def test_cached_ragged_rounds_equal_the_one_shot_masked_pass() -> None:
    """Two rows of different lengths, several rounds with over-long observations that later ones overwrite."""
    torch.manual_seed(1)
    net = backbone()
    table = torch.randn(VOCAB, HIDDEN)
    drafter = BlockDrafter(net, Vocabulary.full(VOCAB), table, table)
    drafter.allocate(2, 64)
    features = torch.randn(2, 40, 2 * HIDDEN)
    starts = [7, 11]
    for row in range(2):
        drafter.observe(row, features[row : row + 1, : starts[row]], torch.zeros(1, dtype=torch.long))
    lengths = torch.tensor(starts)
    seen: list[torch.Tensor] = []
    drafter.choose = lambda hidden, *_: seen.append(hidden) or BlockDrafter.choose(drafter, hidden, *_)  # type: ignore
    for step, grown in enumerate([(1, 4), (3, 1), (2, 5)]):
        anchors = torch.tensor([step + 3, step + 9])
        drafter.propose(0, anchors, lengths, Sampling(), [], lambda _: None)
        block = torch.full((2, 1, 6), net.config.mask_token_id)
        block[:, 0, 0] = anchors
        expected = block_hidden(net, features, lengths[:, None], table[block])[:, 0, 1:]
        torch.testing.assert_close(seen[-1], expected, rtol=1e-4, atol=1e-5)
        wide = max(grown)
        rows = [features[r, int(lengths[r]) : int(lengths[r]) + wide].clone() for r in range(2)]
        for r in range(2):
            rows[r][grown[r] :] = 99.0  # rejected positions: must never be seen
        drafter.observe(0, torch.stack(rows), lengths)
        lengths = lengths + torch.tensor(grown)


def test_a_block_never_sees_its_anchor_s_features_or_later_ones() -> None:
    torch.manual_seed(2)
    net = backbone()
    table = torch.randn(VOCAB, HIDDEN)
    features = torch.randn(1, 20, 2 * HIDDEN)
    anchors = torch.tensor([[5, 12]])
    block = table[torch.randint(0, VOCAB, (1, 2, 6))]
    before = block_hidden(net, features, anchors, block)
    features[0, 12:] += 1.0
    after = block_hidden(net, features, anchors, block)
    torch.testing.assert_close(before, after, rtol=0, atol=1e-6)
    features[0, 11] += 1.0
    moved = block_hidden(net, features, anchors, block)
    torch.testing.assert_close(before[:, 0], moved[:, 0], rtol=0, atol=1e-6)
    assert (before[:, 1] - moved[:, 1]).abs().max() > 1e-4


@pytest.mark.parametrize(("layout", "slots"), [(Layout.FILL_IN, 5), (Layout.ANCHOR_FIRST, 6)])
def test_a_layout_says_which_offsets_predict(layout: Layout, slots: int) -> None:
    assert layout.slots(6) == slots
    assert len(range(6)[layout.offsets(6)]) == slots
    assert layout.offsets(6).start == (1 if layout is Layout.FILL_IN else 0)
