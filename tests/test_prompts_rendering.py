"""Rendering through a chat template, and the warm-up prompts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tokenizers import Tokenizer as Tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from dcoco_bench.errors import UserError
from dcoco_bench.prompts import list_suites, prompt_sha, render, warmup_prompts
from dcoco_bench.prompts.catalogue import sample_file


class Tokenizer:
    """Renders to the code points of `role:text|...`, with the switch visible where `thinks`."""

    def __init__(self, thinks: bool = True, template: str | None = "yes") -> None:
        self.thinks, self.chat_template, self.calls = thinks, template, 0

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> list[int]:
        self.calls += 1
        assert (options["add_generation_prompt"], options["tokenize"], options["return_dict"]) == (True, True, False)
        text = "|".join(f"{m['role']}:{m['content']}" for m in messages)
        return [ord(c) for c in text + ("<think>" if self.thinks and options["enable_thinking"] else "")]


def test_rendering_goes_through_the_template_with_the_switch() -> None:
    tokenizer, chat = Tokenizer(), [{"role": "user", "content": "Hi"}]
    assert bytes(render(tokenizer, chat, False)) == b"user:Hi"
    assert bytes(render(tokenizer, chat, True)) == b"user:Hi<think>"
    before = tokenizer.calls
    render(tokenizer, chat, True)
    assert tokenizer.calls == before + 1


def test_what_cannot_be_rendered_is_an_error() -> None:
    chat = [{"role": "user", "content": "Hi"}]
    with pytest.raises(UserError, match="has no chat template"):
        render(Tokenizer(template=None), chat, False)
    assert render(Tokenizer(thinks=False), chat, False)
    with pytest.raises(UserError, match="has no thinking mode"):
        render(Tokenizer(thinks=False), chat, True)


def test_prompt_sha_tells_ids_apart() -> None:
    shas = [prompt_sha(ids) for ids in ([1, 23], [12, 3], [1, 2, 3], [])]
    assert len(set(shas)) == 4
    assert all(re.fullmatch("[0-9a-f]{16}", sha) for sha in shas)
    assert prompt_sha((1, 23)) == shas[0]


def test_warmup_prompts_are_all_different_and_in_no_sample() -> None:
    texts = warmup_prompts(40)
    assert len(set(texts)) == 40
    assert warmup_prompts(3) == texts[:3]
    samples = [file.read_text(encoding="utf-8") for s in list_suites() if (file := sample_file(s.name))]
    assert not any(text in content for text in texts for content in samples)


def test_a_template_that_refuses_the_messages_is_one_clear_line() -> None:
    """A real tokenizer, whose template raises as those of models without a system role do."""
    words = Tokenizers(WordLevel({"hi": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(UserError, match=r"chat template of .* refuses the prompt \(roles must alternate\)"):
        render(tokenizer, [{"role": "user", "content": "hi"}], False)
