"""Candidates written by the plug-in find their rounds again, and never another request's."""

from __future__ import annotations

import json
from pathlib import Path

from dcoco_bench.engines.base import Rounds
from dcoco_bench.engines.vllm.candidates import CandidateFile

TOKENS = [[11, 12, 13], [21, 22, 23]]
OUTPUT = [5, 11, 12, 77, 21, 22, 23, 78]  # the prefill's token, 2 of 3 accepted and 77, all 3 accepted and 78
ROUNDS = Rounds([3, 3], [2, 3], [3, 4])


def ranked(tokens: list[int]) -> list[list[int]]:
    return [[t, t + 100] for t in tokens]


def write(path: Path, *passes: list[tuple[int, int, list[int]]]) -> None:
    """Each pass: (position, anchor, tokens) of its requests."""
    with path.open("a") as file:
        for rows in passes:
            line = {
                "positions": [r[0] for r in rows],
                "anchors": [r[1] for r in rows],
                "tokens": [r[2] for r in rows],
                "candidates": [ranked(r[2]) for r in rows],
            }
            file.write(json.dumps(line) + "\n")


def test_rounds_are_found_among_the_drafts_of_others(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    write(path, [(4, 9, [1, 2, 3]), (10, 5, TOKENS[0])], [(13, 77, TOKENS[1]), (14, 77, [0, 0, 0])])
    assert CandidateFile(path).of(10, OUTPUT, ROUNDS) == [ranked(t) for t in TOKENS]


def test_two_streams_at_one_place_are_told_apart_by_what_was_delivered(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    write(path, [(10, 5, [11, 99, 13]), (10, 5, TOKENS[0])], [(13, 77, TOKENS[1])])
    assert CandidateFile(path).of(10, OUTPUT, ROUNDS) == [ranked(t) for t in TOKENS]


def test_two_streams_of_one_beginning_are_told_apart_by_their_passes(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    other = [11, 12, 14]  # fits the first round as well, but its stream went on elsewhere
    write(path, [(10, 5, other)], [(13, 78, [0, 0, 0])], [(10, 5, TOKENS[0])], [(13, 77, TOKENS[1])])
    assert CandidateFile(path).of(10, OUTPUT, ROUNDS) == [ranked(t) for t in TOKENS]


def test_what_cannot_be_told_apart_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    write(path, [(10, 5, TOKENS[0])], [(13, 77, TOKENS[1])], [(10, 5, [11, 12, 14])], [(13, 77, TOKENS[1])])
    assert CandidateFile(path).of(10, OUTPUT, ROUNDS) is None
    assert CandidateFile(path).of(10, OUTPUT, None) is None
    path.unlink()
    write(path, [(10, 5, TOKENS[0]), (10, 5, [11, 12, 14])], [(13, 77, TOKENS[1])])  # in one pass
    assert CandidateFile(path).of(10, OUTPUT, ROUNDS) is None


def test_a_round_nobody_wrote_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    assert CandidateFile(path).of(10, OUTPUT, ROUNDS) is None
    write(path, [(10, 5, TOKENS[0])])
    assert CandidateFile(path).of(10, OUTPUT, ROUNDS) is None


def test_a_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    write(path, [(10, 5, TOKENS[0])], [(13, 77, TOKENS[1])])
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    file = CandidateFile(path)
    assert file.of(10, OUTPUT, ROUNDS) is None
    path.write_bytes(whole)
    assert file.of(10, OUTPUT, ROUNDS) == [ranked(t) for t in TOKENS]


def test_undrafted_rounds_have_none(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    write(path, [(11, 6, TOKENS[0])])
    output = [5, 6, 11, 12, 13, 9]
    assert CandidateFile(path).of(10, output, Rounds([0, 3], [0, 3], [1, 4])) == [ranked(TOKENS[0])]
