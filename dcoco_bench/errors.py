"""The one exception a user is meant to read."""


class UserError(Exception):
    """Bad input: one line that names the input, the reason and the mend. The CLI prints it and exits with code 2."""


def nearest(word: str, known: list[str]) -> str:
    """`" (did you mean 'gsm8k'?)"` where something known is close, else the list of what is known."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(known)
