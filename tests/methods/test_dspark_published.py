"""A DSpark draft with a pruned vocabulary, exported: published loaders see a row of W_1 for every target token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting.convert import from_published, to_published
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.methods.dspark import METHOD
from dcoco_bench.methods.dspark.heads import HEADS
from dcoco_bench.registry import Registry
from tests.methods import cases
from tests.methods.test_dspark import R, write
from tests.tiny import HIDDEN, VOCAB, target_model


@pytest.mark.parametrize("kind", HEADS)
def test_a_pruned_draft_goes_out_with_every_row_and_drafts_the_same_when_it_comes_back(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "ours").mkdir()
    ours = write(tmp_path / "ours", Vocabulary(cases.KEPT, VOCAB), Layout.ANCHOR_FIRST, kind, method="dspark")
    assert to_published(ours, tmp_path / "theirs", Registry()) == "Qwen3DSparkModel"
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert (config["markov_rank"], config["markov_head_type"], config["draft_vocab_size"]) == (R, kind, len(cases.KEPT))
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    assert tensors["markov_head.markov_w1.weight"].shape == (VOCAB, R)
    assert tensors["markov_head.markov_w2.weight"].shape == (len(cases.KEPT), R)
    from_published(tmp_path / "theirs", tmp_path / "again", None, Registry())
    target = Target(target_model())
    first, again = (cases.build(METHOD, tmp_path / folder, target) for folder in ("ours", "again"))
    anchors = torch.arange(VOCAB)  # inside the draft vocabulary and outside
    hidden = torch.randn(VOCAB, first.slots, HIDDEN, generator=torch.Generator().manual_seed(2))
    tokens = first.choose(hidden, anchors, Sampling(), []).tokens
    assert torch.equal(tokens, again.choose(hidden, anchors, Sampling(), []).tokens)
    assert set(tokens.unique().tolist()) <= set(cases.KEPT.tolist())
