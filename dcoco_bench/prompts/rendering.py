"""Chat messages → token ids, always through the target's own chat template."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from dcoco_bench.errors import UserError

_has_thinking: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def render(tokenizer: Any, messages: list[dict[str, str]], thinking: bool) -> list[int]:
    """Raises UserError where the tokenizer has no chat template, or no thinking mode and `thinking` is asked for."""
    if not getattr(tokenizer, "chat_template", None):
        raise UserError(f"{_label(tokenizer)} has no chat template; use an instruction-tuned model")
    if thinking and not has_thinking_mode(tokenizer):
        raise UserError(
            f"--thinking on: {_label(tokenizer)} has no thinking mode (its chat template ignores the switch); "
            "use --thinking off"
        )
    ids = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, enable_thinking=thinking, tokenize=True, return_dict=False
    )
    return list(ids)


def has_thinking_mode(tokenizer: Any) -> bool:
    """Does the template render differently with the switch on and off?"""
    if tokenizer not in _has_thinking:
        on, off = (
            tokenizer.apply_chat_template(
                [{"role": "user", "content": "Hello"}],
                add_generation_prompt=True,
                enable_thinking=mode,
                tokenize=True,
                return_dict=False,
            )
            for mode in (True, False)
        )
        _has_thinking[tokenizer] = list(on) != list(off)
    return _has_thinking[tokenizer]


def prompt_sha(ids: Sequence[int]) -> str:
    """First 16 hex digits of the SHA-256 over the token ids, written in decimal with commas."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]


def _label(tokenizer: Any) -> str:
    name = getattr(tokenizer, "name_or_path", "")
    return f"the tokenizer {name!r}" if name else "the tokenizer"
