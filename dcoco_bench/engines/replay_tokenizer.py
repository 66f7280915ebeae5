"""A tokenizer for engines without a model: one token per word, the same on every machine, invertible enough to chat."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

FIRST_WORD = 16  # ids below are the roles
VOCABULARY = 50_000
_ROLES = ("system", "user", "assistant")


class ReplayTokenizer:
    """The parts of a Hugging Face tokenizer that rendering and decoding a conversation use."""

    eos_token_id = 0
    chat_template = "replay"

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        return [_word_id(word) for word in re.findall(r"\w+|[^\w\s]", text)]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return " ".join(f"w{i}" for i in ids)

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, str]],
        tokenize: bool = True,
        add_generation_prompt: bool = True,
        **settings: Any,
    ) -> list[int]:
        """Thinking is one more token, so that both modes render differently, as they do in real templates."""
        ids: list[int] = []
        for message in conversation:
            role = message["role"]
            ids += [1 + _ROLES.index(role) if role in _ROLES else 8, *self.encode(message["content"])]
        if settings.get("enable_thinking"):
            ids.append(9)
        return [*ids, 3] if add_generation_prompt else ids


def _word_id(word: str) -> int:
    known = re.fullmatch(r"w(\d+)", word)  # what `decode` writes comes back as the same id
    if known and FIRST_WORD <= int(known[1]) < VOCABULARY:
        return int(known[1])
    digest = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return FIRST_WORD + digest % (VOCABULARY - FIRST_WORD)
