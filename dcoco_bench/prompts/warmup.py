"""Warm-up prompts: our own, in no suite, so that no measured prompt is in a cache when its turn comes."""

from __future__ import annotations

TEXTS = (
    "Name three things that a lighthouse keeper writes into a logbook.",
    "Explain in two sentences why bread rises.",
    "A box holds 14 pencils and 9 are taken out. How many are left, and how do you know?",
    "Write a Python function that returns the middle character of a word.",
    "List five words that rhyme with stone.",
    "Describe the sound of rain on a tin roof to somebody who never heard it.",
    "What is the difference between a canal and a river?",
    "Write a shell command that counts the lines of every text file in a folder.",
)


def warmup_prompts(count: int) -> list[str]:
    """`count` prompts, no two equal: the texts in turn, from the second round on with the round's number."""
    rounds = (divmod(i, len(TEXTS)) for i in range(count))
    return [TEXTS[place] + (f" (Variation {turn + 1}.)" if turn else "") for turn, place in rounds]
