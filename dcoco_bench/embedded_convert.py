"""GGUF -> Hugging Face folder, for the embedded model. float32: bfloat16 would round the dequantised values."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcoco_bench.errors import UserError

if TYPE_CHECKING:
    import torch

# Over the tensors, not the file: safetensors may order its header differently from one version to the next.
TENSORS_SHA256 = "d790a58ce2d4e41ff3b8a185768b102e08e998ca4f2b282bf1e007f6536c16e0"
CONTEXT_LENGTH = 8192
EXPECTED_CONFIG = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": CONTEXT_LENGTH,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ROPE_THETA = 100_000.0


def convert(gguf: Path, out: Path) -> None:
    """Writes config, weights, tokenizer and generation config into the new folder `out`. Raises UserError."""
    with _quiet():
        _convert_model(gguf, out)
        _convert_tokenizer(gguf, out)
    for file in out.iterdir():
        file.chmod(0o644)


def tensors_sha256(tensors: Mapping[str, torch.Tensor]) -> str:
    """Over name, shape and float32 bytes of every tensor, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}{tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _convert_model(gguf: Path, out: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    parameters = dict(model.named_parameters())  # a tied head appears once, as the embedding
    found = tensors_sha256(parameters)
    if found != TENSORS_SHA256:
        raise UserError(
            f"the dequantised embedded model has SHA-256 {found[:12]}..., not {TENSORS_SHA256[:12]}...: "
            "this version of transformers or gguf reads it differently; install the versions in pyproject.toml"
        )
    vars(model.config).pop("_model_name_or_path", None)  # the GGUF's title, which is no model id
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    model.save_pretrained(out)
    _check_config(json.loads((out / "config.json").read_text(encoding="utf-8")))


def _check_config(config: dict[str, Any]) -> None:
    wrong = [f"{key}={config.get(key)!r}" for key, value in EXPECTED_CONFIG.items() if config.get(key) != value]
    if config.get("rope_parameters", {}).get("rope_theta") != ROPE_THETA:
        wrong.append(f"rope_parameters={config.get('rope_parameters')!r}")
    if "quantization_config" in config:
        wrong.append("quantization_config is left over")
    if wrong:
        raise UserError(
            f"the embedded model was converted wrongly ({', '.join(wrong)}); install the versions in pyproject.toml"
        )


def _convert_tokenizer(gguf: Path, out: Path) -> None:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # GGUF only names its pre-tokenizer ("smollm"), and transformers puts a plain GPT-2 one there. SmolLM splits digits
    # off first, so that "\n\n1" is two tokens, as in its training, and not three.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = CONTEXT_LENGTH
    tokenizer.save_pretrained(out)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no warnings: transformers and tqdm write both to stderr."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
