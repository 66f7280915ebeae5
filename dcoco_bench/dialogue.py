"""A prompt being played: its turns in order, each rendered with the live answers before it."""

from __future__ import annotations

from typing import Any

from dcoco_bench.cells import Turns
from dcoco_bench.prompts import render


class PlayedPrompt:
    """Implements `load.Dialogue`."""

    def __init__(
        self, index: int, prompt_id: str, texts: list[str], tokenizer: Any, thinking: bool, turns: Turns = "all"
    ) -> None:
        self.index, self.prompt_id = index, prompt_id
        self._texts = texts if turns == "all" else texts[:1]
        self._tokenizer, self._thinking = tokenizer, thinking
        self._messages: list[dict[str, str]] = []
        self._turn = 0

    @property
    def turns(self) -> int:
        return len(self._texts)

    def next_prompt(self) -> list[int] | None:
        if self._turn >= len(self._texts):
            return None
        self._messages.append({"role": "user", "content": self._texts[self._turn]})
        self._turn += 1
        return render(self._tokenizer, self._messages, self._thinking)

    def answer(self, output_ids: list[int]) -> None:
        text = self._tokenizer.decode(output_ids, skip_special_tokens=True)
        self._messages.append({"role": "assistant", "content": text})
