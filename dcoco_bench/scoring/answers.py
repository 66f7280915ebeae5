"""The final answer of a text, and whether it is the reference's."""

from __future__ import annotations

from dcoco_bench.errors import UserError

BOX = "\\boxed{"
TIMEOUT_S = 5  # an answer that sympy cannot settle in this time is wrong


def boxed(text: str) -> str | None:
    """What stands in the last closed \\boxed{...}, which is where the prompts ask for it; None without one."""
    at = text.rfind(BOX)
    while at >= 0:
        inside, depth = at + len(BOX), 1
        for i in range(inside, len(text)):
            if text[i - 1] == "\\":  # \{ and \} belong to the answer
                continue
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                return text[inside:i]
        at = text.rfind(BOX, 0, at)
    return None


def equivalent(answer: str, reference: str) -> bool:
    """Whether two LaTeX answers have one value. They are parsed as a grammar; nothing in them is run."""
    try:
        from math_verify import LatexExtractionConfig, parse, verify
    except ImportError:
        raise UserError(
            "scoring needs the package math-verify; install it with: pip install 'dcoco-bench[score]'"
        ) from None
    form = [LatexExtractionConfig()]
    ours, theirs = (
        parse(f"${text}$", extraction_config=form, parsing_timeout=TIMEOUT_S) for text in (answer, reference)
    )
    return bool(verify(theirs, ours, timeout_seconds=TIMEOUT_S))
