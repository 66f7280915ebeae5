"""Published checkpoints, written here in exactly their names and keys, come in, serve, and go back unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dcoco_bench.drafting.convert import from_published, to_published
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.errors import UserError
from dcoco_bench.method import MethodSpec
from dcoco_bench.methods.dflash2.convs import add_convs
from dcoco_bench.methods.dflash2.head import CandidateSelector, SelectorConfig
from dcoco_bench.methods.domino.head import DominoConfig, DominoHead
from dcoco_bench.methods.dspark.heads import DSparkConfig, DSparkHead
from dcoco_bench.methods.lilicorr.config import LiLiCorrConfig
from dcoco_bench.methods.lilicorr.head import LiLiCorr
from dcoco_bench.registry import Registry
from tests.methods import cases
from tests.tiny import HIDDEN, LAYERS, VOCAB, backbone, target_model

SHAPE = {
    "model_type": "qwen3",
    "hidden_size": HIDDEN,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 512,
    "vocab_size": VOCAB,
}
DRAFT = {"mask_token_id": 2, "target_layer_ids": [0, 2]}
TOP = {"block_size": 6, "num_target_layers": LAYERS, "tie_word_embeddings": False}
DSPARK = {
    "markov_rank": 4,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
    "num_anchors": 512,
}
DOMINO = {"projector_type": "domino", "emb_dim": 5, "gru_hidden_dim": 6, "pure_draft_prefix_len": 1}
SELECTOR = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 4, "selector_top_k": 5}
LILICORR = {k: v for k, v in LiLiCorrConfig(HIDDEN, 6, 5, 4, 16, 1, 2, 2.0, 8).to_json().items() if "lili" in k}
FILL, FIRST = Layout.FILL_IN, Layout.ANCHOR_FIRST


def _filled(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(9)
    return {
        prefix + name: (0.3 * torch.randn(t.shape, generator=generator)).to(torch.bfloat16)
        for name, t in module.state_dict().items()
    }


def _dspark(kind: str = "vanilla", confidence: bool = True) -> dict[str, Tensor]:
    return _filled(DSparkHead(DSparkConfig(HIDDEN, VOCAB, VOCAB, 4, kind, confidence)))


def _domino(prefix: str = "") -> dict[str, Tensor]:
    return _filled(DominoHead(DominoConfig(HIDDEN, VOCAB, 6, 5)), prefix)


def _copies() -> dict[str, Tensor]:
    table = torch.zeros(VOCAB, HIDDEN, dtype=torch.bfloat16)
    return {"embed_tokens.weight": table, "lm_head.weight": table.clone()}


def _blind() -> dict[str, Tensor]:
    tensors = _dspark()
    tensors["confidence_head.proj.weight"] = tensors["confidence_head.proj.weight"][:, :HIDDEN].contiguous()
    return tensors


def _selector() -> dict[str, Tensor]:
    return _filled(CandidateSelector(SelectorConfig(HIDDEN, VOCAB, 4)), "candidate_selector.")


def _lilicorr() -> dict[str, Tensor]:
    head = LiLiCorr(
        LiLiCorrConfig.from_json(LILICORR | {"hidden_size": HIDDEN, "block_size": 6, "slots": 5, "rms_norm_eps": 1e-6})
    )
    return _filled(head, "lilicorr.")


def _nested(architecture: str, **keys: Any) -> dict[str, Any]:
    return {"architectures": [architecture], **SHAPE, **TOP, "dflash_config": {**DRAFT, **keys}}


def _flat(architecture: str, **keys: Any) -> dict[str, Any]:
    return {"architectures": [architecture], **SHAPE, **TOP, **DRAFT, **keys}


def _speculators(kind: str, architecture: str, **keys: Any) -> dict[str, Any]:
    layer = {"transformer_layer_config": SHAPE, "aux_hidden_state_layer_ids": [1, 3], "mask_token_id": 2}
    return {"architectures": [architecture], "speculators_model_type": kind, **TOP, **layer, **keys}


FORMS: dict[str, tuple[str, dict[str, Any], dict[str, Tensor], Layout | None]] = {
    "z-lab DFlash": ("dflash", _nested("DFlashDraftModel"), {}, FILL),
    "DeepSpec DFlash": ("dflash", _flat("Qwen3DSparkModel", markov_rank=0), _copies(), FIRST),
    "speculators DFlash": (
        "dflash",
        _speculators("dflash", "DFlashSpeculator", sample_from_anchor=False),
        _copies(),
        None,
    ),
    "DeepSpec DSpark": ("dspark", _flat("Qwen3DSparkModel", **DSPARK), _dspark() | _copies(), FIRST),
    "DeepSpec DSpark, gated": (
        "dspark",
        _flat("Qwen3DSparkModel", **DSPARK | {"markov_head_type": "gated"}),
        _dspark("gated"),
        FIRST,
    ),
    "DeepSpec DSpark, rnn": (
        "dspark",
        _flat("Qwen3DSparkModel", **DSPARK | {"markov_head_type": "rnn"}),
        _dspark("rnn"),
        FIRST,
    ),
    "SpecForge DSpark": ("dspark", _nested("DSparkDraftModel", **DSPARK, sample_from_anchor=True), _dspark(), None),
    "SpecForge DSpark, no confidence": (
        "dspark",
        _nested("DSparkDraftModel", **DSPARK | {"enable_confidence_head": False}),
        _dspark(confidence=False),
        FIRST,
    ),
    "speculators DSpark": (
        "dspark",
        _speculators("dspark", "DSparkSpeculator", **DSPARK, sample_from_anchor=True),
        _dspark(),
        None,
    ),
    "DSpark, confidence without the token": (
        "dspark",
        _flat("Qwen3DSparkModel", **DSPARK | {"confidence_head_with_markov": False}),
        _blind(),
        FIRST,
    ),
    "Domino, flat": ("domino", _nested("DominoDraftModel", **DOMINO, shift_label=True), _domino(), None),
    "Domino, nested": ("domino", _nested("DominoDraftModel", **DOMINO, shift_label=True), _domino("logit_head."), None),
    "speculators Domino": (
        "domino",
        _speculators("dflash", "DFlashSpeculator", **DOMINO, shift_label=True),
        _domino(),
        None,
    ),
    "DFlash2": ("dflash2", _nested("DFlash2DraftModel", **SELECTOR), _selector(), FILL),
    "LiLiCorr": ("lilicorr", _nested("LiLiCorrDraftModel", lilicorr_enabled=True, **LILICORR), _lilicorr(), FILL),
}


def _write(folder: Path, config: dict[str, Any], head: dict[str, Tensor]) -> dict[str, Tensor]:
    folder.mkdir()
    module = backbone()
    if config["architectures"] == ["DFlash2DraftModel"]:
        module = add_convs(module)
    tensors = {name: t.to(torch.bfloat16).contiguous() for name, t in module.state_dict().items()} | head
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


@pytest.mark.parametrize("form", FORMS)
def test_a_published_draft_comes_in_and_drafts_losslessly(tmp_path: Path, form: str) -> None:
    name, config, head, layout = FORMS[form]
    registry, target = Registry(), Target(target_model())
    written = _write(tmp_path / "theirs", config, head)
    assert from_published(tmp_path / "theirs", tmp_path / "ours", layout, registry) == name
    method = registry.get_method(name)
    drafter = method.drafter(tmp_path / "ours", target, MethodSpec.parse(name).resolve(method.params))
    assert drafter.taps == (0, 2)
    assert drafter.slots == (6 if (layout is FIRST or (layout is None and "DFlash" not in form)) else 5)
    assert cases.decode(drafter, target, 3) == cases.decode(None, target, 1)
    kept = load_file(tmp_path / "ours" / "model.safetensors")
    for tensor in ("fc.weight", "layers.1.self_attn.q_norm.weight"):
        assert torch.equal(kept[tensor], written[tensor])


@pytest.mark.parametrize("form", ["z-lab DFlash", "DeepSpec DSpark, rnn", "Domino, flat", "DFlash2", "LiLiCorr"])
def test_and_goes_back_to_the_same_names_keys_and_weights(tmp_path: Path, form: str) -> None:
    _, config, head, layout = FORMS[form]
    registry = Registry()
    written = _write(tmp_path / "theirs", config, head)
    from_published(tmp_path / "theirs", tmp_path / "ours", layout, registry)
    assert to_published(tmp_path / "ours", tmp_path / "again", registry) == config["architectures"][0]
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert set(again) == set(written)
    for name, tensor in written.items():
        assert torch.equal(again[name], tensor), name
    keys = json.loads((tmp_path / "again" / "config.json").read_text())
    dropped = {"num_anchors", "conv_kernel_size", "conv_group_size"}
    for key, value in config.items():
        if key == "dflash_config":
            assert {k: v for k, v in keys[key].items() if k in value} == {
                k: v for k, v in value.items() if k not in dropped
            }
        elif key not in dropped:
            assert keys[key] == value, key
    assert "dcoco_bench" not in keys
    from_published(tmp_path / "again", tmp_path / "twice", None, registry)  # it says its layout now
    assert (
        load_file(tmp_path / "twice" / "model.safetensors").keys()
        == load_file(tmp_path / "ours" / "model.safetensors").keys()
    )


def _refused(folder: Path, form: str, change: dict[str, Any], head: dict[str, Tensor], layout: Layout | None) -> str:
    _, config, tensors, _ = FORMS[form]
    _write(folder / "theirs", config | change, tensors | head)
    with pytest.raises(UserError) as caught:
        from_published(folder / "theirs", folder / "ours", layout, Registry())
    assert not (folder / "ours").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_name_and_shape_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    said = _refused(
        tmp_path,
        "DeepSpec DSpark",
        {"markov_rank": 3},
        {"markov_head.extra": torch.zeros(2), "fc.weight": torch.zeros(HIDDEN, 7)},
        FIRST,
    )
    for part in (
        "markov_head.extra is unknown",
        "fc.weight is [32, 7], config.json makes it [32, 64]",
        "markov_head.markov_w1.weight is [61, 4], config.json makes it [61, 3]",
        "markov_head.markov_w2.weight is [61, 4]",
    ):
        assert part in said


@pytest.mark.parametrize(
    ("change", "layout", "reason"),
    [
        ({}, None, "no layout flag"),
        ({"architectures": ["EagleModel"]}, FILL, "architecture 'EagleModel' is unknown; known: DFlash2DraftModel"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, FILL, "sliding-window"),
        ({"rope_scaling": {"type": "yarn", "factor": 4}}, FILL, "rope_type 'yarn'"),
        ({"target_hidden_size": 64}, FILL, "target_hidden_size 64"),
        ({"logit_scale": 0.5}, FILL, "logit_scale 0.5"),
        ({"hidden_size": "wide"}, FILL, "hidden_size"),
    ],
)
def test_what_cannot_be_read_rightly_is_refused(
    tmp_path: Path, change: dict[str, Any], layout: Layout | None, reason: str
) -> None:
    assert reason in _refused(tmp_path, "z-lab DFlash", change, {}, layout)


def test_a_trained_mask_vector_is_refused(tmp_path: Path) -> None:
    _write(tmp_path / "theirs", FORMS["z-lab DFlash"][1], {})
    (tmp_path / "theirs" / "mask_embedding.pt").write_bytes(b"")
    with pytest.raises(UserError, match="trained mask vector"):
        from_published(tmp_path / "theirs", tmp_path / "ours", FILL, Registry())
