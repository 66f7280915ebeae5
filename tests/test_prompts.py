"""Suites, their sources and sampling. The user's data is used where DCOCO_BENCH_DATA is set."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.prompts import (
    Prompt,
    PromptSet,
    get_suite,
    list_suites,
    load_suite,
    resolve_suites,
    warmup_prompts,
)
from dcoco_bench.prompts.catalogue import sample_file
from dcoco_bench.prompts.sampling import sample
from dcoco_bench.prompts.suite import read_suite

TEN = {
    "gsm8k",
    "math500",
    "aime25",
    "humaneval",
    "mbpp",
    "livecodebench",
    "mt-bench",
    "arena-hard-v2",
    "alpaca",
    "speedbench-public",
}
DATA = os.environ.get("DCOCO_BENCH_DATA")
WITH_DATA = [s for s in list_suites() if DATA and (Path(DATA) / f"{s.name}.jsonl").is_file()]
SAMPLED = [s.name for s in list_suites() if sample_file(s.name)]
BASE = 'title = "Mine"\nversion = 1\ncategory = "general"\nlicence = "MIT"\nredistributable = true\nsource = "me"\n'


@pytest.fixture(autouse=True)
def no_data_and_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCOCO_BENCH_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def write(folder: Path, *rows: Any, name: str = "gsm8k") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"q/{number}", "turns": [f"question {number}"], **more}


# --- the suite files


def test_all_is_the_ten_suites_and_the_real_speedbench_is_not_among_them() -> None:
    assert set(resolve_suites("all")) == TEN
    assert {"speedbench", "alpaca-eagle80"} <= {s.name for s in list_suites()}


def test_suites_whose_texts_may_not_be_passed_on_say_so() -> None:
    closed = {s.name for s in list_suites() if not s.redistributable}
    assert closed == {"aime25", "alpaca", "alpaca-eagle80", "livecodebench", "speedbench", "speedbench-public"}


def test_suites_are_named_once_in_the_order_given() -> None:
    assert resolve_suites(" math500, gsm8k,math500") == ("math500", "gsm8k")
    assert resolve_suites("mbpp,all")[0] == "mbpp"
    assert len(resolve_suites("mbpp,all")) == 10


def test_an_unknown_suite_gets_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"unknown suite 'gsm8'; did you mean 'gsm8k'"):
        resolve_suites("math500,gsm8")
    with pytest.raises(UserError, match="no suite in ' , '"):
        resolve_suites(" , ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BASE + "colour = 1", "colour: Extra inputs"),
        (BASE.replace("version = 1", "version = 0"), "version: "),
        (BASE.replace('category = "general"', 'category = "poems"'), "category: "),
        (BASE + '[hub]\nid = "a/b"\nrow_id = "x"', "hub: give either template or turns_field"),
        ("title = ", "not readable as TOML"),
    ],
)
def test_a_bad_suite_file_is_named_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=reason) as caught:
        read_suite(file)
    assert str(file) in str(caught.value)


def test_a_plugin_folder_adds_a_suite_with_its_sample(tmp_path: Path) -> None:
    write(tmp_path / "suites" / "samples", row(1), name="mine")
    (tmp_path / "suites" / "mine.toml").write_text(BASE)
    assert "mine" not in {s.name for s in list_suites()}
    assert "mine" not in resolve_suites("all", [tmp_path])
    assert resolve_suites("mine", [tmp_path]) == ("mine",)
    assert load_suite("mine", extra_dirs=[tmp_path]).origin == "sample"


# --- sources


def test_the_folder_comes_first_and_the_record_says_what_was_used(tmp_path: Path) -> None:
    prompts = load_suite("gsm8k", data_dir=write(tmp_path, row(1), "", row(2)))
    record = prompts.record()
    assert [p.turns for p in prompts.prompts] == [("question 1",), ("question 2",)]
    assert (record.name, record.version, record.origin, record.category, record.prompts) == (
        "gsm8k",
        get_suite("gsm8k").version,
        "data",
        "math",
        2,
    )
    assert re.fullmatch("[0-9a-f]{16}", record.prompt_hash)
    assert prompts.fell_through == ()


def test_the_folder_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCOCO_BENCH_DATA", str(write(tmp_path, row(1))))
    assert load_suite("gsm8k").origin == "data"


def test_the_hash_follows_ids_texts_and_order(tmp_path: Path) -> None:
    sets = [
        load_suite("gsm8k", data_dir=write(tmp_path / str(i), *rows))
        for i, rows in enumerate(
            [
                (row(1), row(2)),
                (row(1, source="elsewhere"), row(2)),
                (row(2), row(1)),
                (row(1), row(3)),
                ({"id": "q/1", "turns": ["question 1", "more"]}, row(2)),
            ]
        )
    ]
    hashes = [s.prompt_hash for s in sets]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"--data-dir .*nowhere: no such folder"):
        load_suite("gsm8k", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("DCOCO_BENCH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"DCOCO_BENCH_DATA .*nowhere: no such folder"):
        load_suite("gsm8k")


def test_without_any_source_every_reason_is_given(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_suite("speedbench", data_dir=tmp_path)
    for reason in ("has no speedbench.jsonl", "HF_HUB_OFFLINE is set", "sample: there is none"):
        assert reason in str(caught.value)


# --- broken rows


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{oops", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"id": "a", "turns": ["x"], "n": ' + "9" * 5000 + "}", "not JSON"),
        (r'{"id": "a", "turns": ["\ud800"]}', "half of a surrogate pair"),
        ("[1]", "not a JSON object"),
        ({"turns": ["a"]}, 'no "id" text'),
        ({"id": 3, "turns": ["a"]}, 'no "id" text'),
        ({"id": "a"}, 'no "turns"'),
        ({"id": "a", "turns": "text"}, '"turns" is str, not a list'),
        ({"id": "a", "turns": []}, '"turns" is empty'),
        ({"id": "a", "turns": ["ok", " \n"]}, "turn 2 is blank"),
        ({"id": "a", "turns": [5]}, "turn 1 is int, not a text"),
        (row(1), "id 'q/1' was used before"),
        (
            {"id": "a", "turns": ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"]},
            "SPEED-Bench placeholder",
        ),
        ({"id": "a", "turns": ["Summarise: {article}"]}, "SPEED-Bench placeholder"),
    ],
)
def test_a_broken_row_stops_with_file_line_and_reason(tmp_path: Path, bad: Any, reason: str) -> None:
    with pytest.raises(UserError, match=re.escape(reason)) as caught:
        load_suite("gsm8k", data_dir=write(tmp_path, row(1), bad))
    assert f"{tmp_path / 'gsm8k.jsonl'} line 2: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_file_and_one_that_is_not_text_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no row"):
        load_suite("gsm8k", data_dir=write(tmp_path, ""))
    (tmp_path / "gsm8k.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read"):
        load_suite("gsm8k", data_dir=tmp_path)


def test_a_line_separator_inside_a_text_does_not_end_the_row(tmp_path: Path) -> None:
    text = json.dumps(row(1) | {"turns": ["a\u2028b"]}, ensure_ascii=False)
    assert load_suite("gsm8k", data_dir=write(tmp_path, text)).prompts[0].turns == ("a\u2028b",)


# --- categories and sampling


def test_categories_come_from_the_row_the_references_or_the_id(tmp_path: Path) -> None:
    write(tmp_path / "refs", {"id": "q/2", "category": "stem"}, name="mt-bench")
    write(tmp_path, row(1, category="writing"), row(2), row(3), name="mt-bench")
    found = load_suite("mt-bench", data_dir=tmp_path)
    assert [p.category for p in found.prompts] == ["writing", "stem", "general"]
    write(tmp_path, {"id": "speedbench-public/rag/x", "turns": ["a"]}, name="speedbench-public")
    assert load_suite("speedbench-public", data_dir=tmp_path).prompts[0].category == "rag"


def lopsided() -> list[Prompt]:
    """30 of a, 5 of b, 2 of c, in blocks."""
    return [Prompt(f"{c}{i}", ("x",), c) for c, n in (("a", 30), ("b", 5), ("c", 2)) for i in range(n)]


def test_every_category_gets_its_share_while_it_lasts() -> None:
    counts = Counter(p.category for p in sample(lopsided(), 12, seed=0))
    assert counts == {"a": 5, "b": 5, "c": 2}
    assert [p.category for p in sample(lopsided(), 4, seed=0)] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("seed", [0, 7])
def test_a_smaller_sample_is_the_start_of_a_larger_one(seed: int) -> None:
    largest = sample(lopsided(), 36, seed)
    assert len({p.id for p in largest}) == 36
    assert all(sample(lopsided(), n, seed) == largest[:n] for n in range(1, 36))
    assert set(largest) <= set(sample(lopsided(), 37, seed))


def test_the_sample_is_pinned_and_depends_on_the_seed() -> None:
    assert [p.id for p in sample(lopsided(), 6, seed=0)] == ["a0", "b4", "c1", "a19", "b0", "c0"]
    assert sample(lopsided(), 6, seed=1) != sample(lopsided(), 6, seed=0)


def test_asking_for_more_than_there_is_gives_all_and_says_so(tmp_path: Path) -> None:
    folder = write(tmp_path, row(1), row(2))
    more, exact = (load_suite("gsm8k", data_dir=folder, num_prompts=n) for n in (3, 2))
    assert (len(more), more.too_few) == (2, True)
    assert (len(exact), exact.too_few) == (2, False)
    with pytest.raises(UserError, match="--num-prompts 0"):
        load_suite("gsm8k", data_dir=folder, num_prompts=0)


# --- what may be absent here: an empty list of parameters would be counted as a skipped test

if SAMPLED:

    @pytest.mark.parametrize("name", SAMPLED)
    def test_samples_stand_in_and_never_pass_for_the_suite(name: str) -> None:
        prompts = load_suite(name)
        assert prompts.record().origin == "sample"
        assert len(prompts.fell_through) == 2
        assert all(p.id.startswith(f"{name}/sample/") for p in prompts.prompts)
        assert get_suite(name).turns == "multi" or all(len(p.turns) == 1 for p in prompts.prompts)


if WITH_DATA:

    @pytest.mark.parametrize("suite", WITH_DATA, ids=lambda suite: suite.name)
    def test_a_data_file_is_the_one_that_the_suite_describes(suite: Any) -> None:
        found: PromptSet = load_suite(suite.name, data_dir=Path(DATA or ""))
        assert suite.data_prompt_hash in (found.prompt_hash, None)
        assert (max(len(p.turns) for p in found.prompts) > 1) == (suite.turns == "multi")
        assert not {t for p in found.prompts for t in p.turns} & set(warmup_prompts(64))
        if suite.hub and suite.hub.template:
            forms = [suite.hub.template, *([suite.hub.without.template] if suite.hub.without else [])]
            patterns = [re.sub(r"\\\{\w+\\\}", "(?s:.+)", re.escape(form)) for form in forms]
            assert all(any(re.fullmatch(p, prompt.turns[0]) for p in patterns) for prompt in found.prompts)
