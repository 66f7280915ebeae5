"""Draft checkpoints: round trip, the public form, and one clear line for each that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.config import DraftConfig
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.errors import UserError
from tests.tiny import HIDDEN, LAYERS, VOCAB, backbone

KEPT = torch.tensor([0, 2, 3, 10, 44, 60])


@pytest.mark.parametrize("layout", list(Layout))
def test_round_trip_keeps_weights_layout_and_vocabulary(tmp_path: Path, layout: Layout) -> None:
    net = backbone(layout)
    checkpoint.save(tmp_path, net, Vocabulary(KEPT, VOCAB), torch.randn(VOCAB, HIDDEN))
    again, vocabulary = checkpoint.load(tmp_path)
    assert again.config.layout is layout
    assert torch.equal(vocabulary.kept, KEPT)
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, net.state_dict()[name].to(torch.bfloat16).float()), name


def test_written_names_and_config_are_those_vllm_reads(tmp_path: Path) -> None:
    head = torch.randn(VOCAB, HIDDEN)
    checkpoint.save(tmp_path, backbone(), Vocabulary(KEPT, VOCAB), head)
    names = set(load_file(tmp_path / "model.safetensors"))
    layer = "layers.0."
    expected = {"fc.weight", "hidden_norm.weight", "norm.weight", "d2t", layer + "input_layernorm.weight"}
    expected |= {layer + f"self_attn.{n}.weight" for n in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")}
    expected |= {layer + f"mlp.{n}_proj.weight" for n in ("gate", "up", "down")}
    assert expected <= names
    assert not any(name.startswith("model.") for name in names)
    assert torch.equal(load_file(tmp_path / "lm_head.safetensors")["lm_head.weight"], head[KEPT].to(torch.bfloat16))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["DFlashDraftModel"]
    assert config["dflash_config"] == {"mask_token_id": 2, "target_layer_ids": [0, 2]}
    assert config["draft_vocab_size"] == len(KEPT)
    assert config["model_type"] == "qwen3"
    assert "auto_map" not in config


def _public(folder: Path, **changes: object) -> None:
    """A z-lab style folder: no layout flag, no key of ours."""
    checkpoint.save(folder, backbone(), Vocabulary.full(VOCAB))
    config = json.loads((folder / "config.json").read_text())
    del config["dcoco_bench"]
    (folder / "config.json").write_text(json.dumps(config | changes))


def test_no_layout_flag_is_refused_and_the_mend_works(tmp_path: Path) -> None:
    _public(tmp_path)
    with pytest.raises(UserError, match=r"no layout flag.*layout=fill-in"):
        checkpoint.load(tmp_path)
    net, _ = checkpoint.load(tmp_path, Layout.FILL_IN)
    assert net.config.layout is Layout.FILL_IN


@pytest.mark.parametrize(
    ("flag", "layout"),
    [({"sample_from_anchor": True}, Layout.ANCHOR_FIRST), ({"shift_label": False}, Layout.FILL_IN)],
)
def test_public_flags_are_understood_and_contradicting_them_is_refused(
    tmp_path: Path, flag: dict[str, object], layout: Layout
) -> None:
    _public(tmp_path, **flag)
    assert checkpoint.load(tmp_path)[0].config.layout is layout
    other = Layout.FILL_IN if layout is Layout.ANCHOR_FIRST else Layout.ANCHOR_FIRST
    with pytest.raises(UserError, match="declares layout"):
        checkpoint.load(tmp_path, other)


def test_misfit_with_the_target_names_both_shapes(tmp_path: Path) -> None:
    config = backbone().config
    with pytest.raises(UserError, match=r"hidden_size 32 \(target: 64\)"):
        checkpoint.check_fits(tmp_path, config, hidden_size=64, vocab_size=VOCAB, layers=LAYERS)
    checkpoint.check_fits(tmp_path, config, hidden_size=HIDDEN, vocab_size=VOCAB, layers=LAYERS)


def test_missing_and_misshapen_tensors_are_listed(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, backbone(), Vocabulary.full(VOCAB))
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["norm.weight"]
    tensors["fc.weight"] = tensors["fc.weight"][:, :-1].contiguous()
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(
        UserError, match=r"norm.weight is missing; fc.weight is \[32, 63\], config.json makes it \[32, 64\]"
    ):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "not JSON"), ("{}", "no layout flag"), ('{"dcoco_bench": {"layout": "sideways"}}', "sideways")],
)
def test_broken_configs_give_one_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=reason) as caught:
        DraftConfig.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_weights_and_torn_weights_give_one_line(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, backbone(), Vocabulary.full(VOCAB))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(UserError, match="not readable"):
        checkpoint.load(tmp_path)
    weights.unlink()
    with pytest.raises(UserError, match=r"no .safetensors"):
        checkpoint.load(tmp_path)
