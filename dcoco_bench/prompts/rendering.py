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
    return _apply(tokenizer, messages, thinking)


def _apply(tokenizer: Any, messages: list[dict[str, str]], thinking: bool) -> list[int]:
    """Raises UserError where the template itself refuses the messages or is broken."""
    from jinja2 import TemplateError

    try:
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, enable_thinking=thinking, tokenize=True, return_dict=False
        )
    except TemplateError as error:
        raise UserError(
            f"the chat template of {_label(tokenizer)} refuses the prompt ({error}); use a model whose template takes "
            "user and assistant turns"
        ) from None
    return list(ids)


def has_thinking_mode(tokenizer: Any) -> bool:
    """Does the template render differently with the switch on and off?"""
    if tokenizer not in _has_thinking:
        on, off = (_apply(tokenizer, [{"role": "user", "content": "Hello"}], mode) for mode in (True, False))
        _has_thinking[tokenizer] = on != off
    return _has_thinking[tokenizer]


def prompt_sha(ids: Sequence[int]) -> str:
    """First 16 hex digits of the SHA-256 over the token ids, written in decimal with commas."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]


def _label(tokenizer: Any) -> str:
    name = getattr(tokenizer, "name_or_path", "")
    return f"the tokenizer {name!r}" if name else "the tokenizer"
