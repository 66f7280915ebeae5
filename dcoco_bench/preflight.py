"""Does every prompt, with the longest answers it may get, fit into the context? Asked before the first request."""

from __future__ import annotations

from typing import Any

from dcoco_bench.cells import Turns
from dcoco_bench.errors import UserError
from dcoco_bench.prompts import PromptSet, render

WARMUP_ROOM = 256  # tokens that a warm-up request may need in all


def needed_context(
    prompts: PromptSet, tokenizer: Any, thinking: bool, turns: Turns, max_tokens: int, limit: int
) -> int:
    """The most tokens that one request of the suite can hold. Raises UserError when that is above `limit`.

    The prompt of turn t holds t answers of up to `max_tokens` each.
    """
    worst = WARMUP_ROOM
    for prompt in prompts.prompts:
        texts = list(prompt.turns) if turns == "all" else list(prompt.turns)[:1]
        messages: list[dict[str, str]] = []
        for turn, text in enumerate(texts):
            messages.append({"role": "user", "content": text})
            size = len(render(tokenizer, messages, thinking)) + turn * max_tokens
            if size + max_tokens > limit:
                where = f"prompt {prompt.id!r} of {prompts.record().name}" + (f" turn {turn + 1}" if turn else "")
                raise UserError(
                    f"--max-tokens {max_tokens}: {where} may take {size} tokens, "
                    f"{size + max_tokens} with its answer, and the context holds {limit}; lower --max-tokens"
                )
            worst = max(worst, size + max_tokens)
            messages.append({"role": "assistant", "content": ""})
    return min(worst, limit)
