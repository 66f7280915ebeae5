"""Final answers are found where the prompts ask for them, and compared by value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcoco_bench.scoring.answers import boxed, equivalent


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"so \boxed{18}.", "18"),
        (r"first \boxed{3}, then \boxed{4}", "4"),  # the last one counts
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}} and more", r"\{1, 2\}"),
        (r"\boxed{7} then cut off \boxed{\frac{1", "7"),
        (r"cut off \boxed{\frac{1}", None),
        ("the answer is 18", None),
        ("", None),
    ],
)
def test_the_last_closed_box_is_the_answer(text: str, found: str | None) -> None:
    assert boxed(text) == found


@given(st.text(alphabet="\\{}boxed1 ", max_size=60))
def test_any_text_is_read(text: str) -> None:
    found = boxed(text)
    assert found is None or f"\\boxed{{{found}}}" in text


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("18.0", "18"),
        (r"\$70,000", "70000"),
        ("14/3", r"\frac{14}{3}"),
        (r"(3,\pi/2)", r"\left( 3, \frac{\pi}{2} \right)"),
        ("Evelyn", r"\text{Evelyn}"),
        ("90", r"90^\circ"),
        ("0.5", r"\frac{1}{2}"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
    ],
)
def test_equal_values_are_equal_answers(answer: str, reference: str) -> None:
    assert equivalent(answer, reference)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("19", "18"),
        ("", "18"),
        (r"(\pi/2,3)", r"\left( 3, \frac{\pi}{2} \right)"),
        ("__import__('os').system('true')", "18"),
        (r"\frac{", "18"),
    ],
)
def test_other_values_and_nonsense_are_not(answer: str, reference: str) -> None:
    assert not equivalent(answer, reference)
