"""Backbones as data: names, folders, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from dcoco_bench.backbone import Backbone, list_backbones, load_tokenizer, resolve_backbone
from dcoco_bench.errors import UserError


def model_folder(folder: Path, **config: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_embedded_default_comes_first_and_the_papers_targets_are_known() -> None:
    names = [backbone.name for backbone in list_backbones()]
    assert names[0] == "smollm2-135m"
    assert {"qwen3-4b", "qwen3-8b", "qwen3-coder-30b-a3b", "llama-3.1-8b"} < set(names)


@pytest.mark.parametrize("backbone", list_backbones(), ids=lambda backbone: backbone.name)
def test_every_built_in_backbone_says_enough_to_train_a_draft_for_it(backbone: Backbone) -> None:
    assert resolve_backbone(backbone.name) == backbone
    assert backbone.mask_token_id is not None
    assert backbone.parameters
    assert backbone.label == backbone.name


def test_a_hub_backbone_passes_its_id_through() -> None:
    assert str(resolve_backbone("qwen3-8b").materialise()) == "Qwen/Qwen3-8B"
    assert resolve_backbone("qwen3-8b").thinking == ("off", "on")


def test_an_unknown_key_in_a_backbone_file_is_refused() -> None:
    with pytest.raises(ValidationError, match="contextlength"):
        Backbone.model_validate(
            {"name": "x", "source": "hub", "model": "a/b", "licence": "MIT", "context_length": 8, "contextlength": 8}
        )


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UserError, match=r"unknown backbone 'qwen3-8'.*did you mean 'qwen3-8b'"):
        resolve_backbone("qwen3-8")


def test_a_local_folder_is_a_backbone(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "my-model", max_position_embeddings=512)
    backbone = resolve_backbone(str(folder))
    assert (backbone.source, backbone.context_length, backbone.label) == ("local", 512, "my-model")
    assert resolve_backbone(backbone.name) == backbone, "the name in a cell must lead back to the folder"
    assert backbone.materialise() == folder
    assert backbone.thinking == ("off",)


def test_a_local_chat_template_tells_whether_there_is_a_thinking_mode(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "thinker", max_position_embeddings=512)
    (folder / "chat_template.jinja").write_text("{% if enable_thinking %}<think>{% endif %}")
    assert resolve_backbone(str(folder)).thinking == ("off", "on")


@pytest.mark.parametrize(
    ("config", "reason"),
    [("{", "not usable"), ("{}", "max_position_embeddings"), ('{"max_position_embeddings": 0}', "not usable")],
)
def test_a_broken_config_is_refused_in_one_line(tmp_path: Path, config: str, reason: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(UserError, match=reason) as refusal:
        resolve_backbone(str(tmp_path))
    assert "\n" not in str(refusal.value)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        resolve_backbone(str(tmp_path))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "bare", max_position_embeddings=512, model_type="llama")
    with pytest.raises(UserError, match="no tokenizer could be loaded"):
        load_tokenizer(resolve_backbone(str(folder)))


def test_the_embedded_mask_token_is_a_special_that_no_chat_contains(smollm2: Path) -> None:
    backbone = resolve_backbone("smollm2-135m")
    assert backbone.materialise() == smollm2
    tokenizer = load_tokenizer(backbone)
    assert backbone.mask_token_id is not None
    assert tokenizer.convert_ids_to_tokens(backbone.mask_token_id) == backbone.mask_token
    assert backbone.mask_token_id not in (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id)
    chat = [{"role": "user", "content": "What is 12 + 30?"}]
    rendered = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert isinstance(rendered, str)
    assert rendered.endswith("<|im_start|>assistant\n")
    assert backbone.mask_token_id not in tokenizer(rendered)["input_ids"]
