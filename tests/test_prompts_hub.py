"""Prompts from the hub, with a stand-in for `datasets`: nothing here reaches a network."""

from __future__ import annotations

import socket
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.prompts import get_suite, hub, load_suite
from dcoco_bench.prompts.hub import HubUnavailable, hub_rows, unreachable
from dcoco_bench.prompts.suite import HubForm


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCOCO_BENCH_DATA", raising=False)


def fake_hub(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]] | Exception) -> list[Any]:
    calls: list[Any] = []

    def load_dataset(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        calls.append((args, kwargs))
        if isinstance(rows, Exception):
            raise rows
        return rows

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr(hub, "_why_not", lambda: None)
    monkeypatch.setattr(hub, "_failed", {})
    return calls


def turns_of(monkeypatch: pytest.MonkeyPatch, suite: str, *rows: dict[str, Any]) -> list[tuple[str, list[str]]]:
    fake_hub(monkeypatch, list(rows))
    form = get_suite(suite).hub
    assert form is not None
    return [(r["id"], r["turns"]) for _, r in hub_rows(form)]


def test_hub_rows_take_the_form_of_their_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    box = "\nPlease reason step by step, and put your final answer within \\boxed{}."
    assert turns_of(monkeypatch, "gsm8k", {"question": "1+{1}?"}) == [("gsm8k/test/0000", ["1+{1}?" + box])]
    alpaca = turns_of(
        monkeypatch, "alpaca", {"instruction": "Add.", "input": "1 2"}, {"instruction": "Hi.", "input": ""}
    )
    assert [turns for _, turns in alpaca] == [["Add.\n\nInput:\n1 2"], ["Hi."]]
    talk = {"prompt_id": 81, "prompt": ["a", "b"], "category": "writing"}
    assert turns_of(monkeypatch, "mt-bench", talk) == [("mt-bench/81", ["a", "b"])]


def test_hub_rows_make_a_prompt_set_with_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub(monkeypatch, [{"uid": "u1", "prompt": "p", "category": "creative_writing"}])
    found = load_suite("arena-hard-v2")
    assert (found.origin, found.prompts[0].category) == ("hub", "creative_writing")


def test_named_files_are_read_at_their_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_hub(monkeypatch, [{"question_content": "Q", "starter_code": ""}])
    form = get_suite("livecodebench").hub
    assert form is not None
    assert len(list(hub_rows(form))) == 1
    ((kind,), options) = calls[0]
    assert kind == "json"
    first, *others = options["data_files"]["test"]
    assert first == f"hf://datasets/livecodebench/code_generation_lite@{form.revision}/test.jsonl"
    assert len(others) == 5


def test_placeholders_of_the_hub_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub(monkeypatch, [{"question_id": "x", "turns": ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"]}])
    with pytest.raises(UserError, match=r"hub data set nvidia/SPEED-Bench row 0: .*prepare the data"):
        load_suite("speedbench")


def test_fields_that_do_not_fit_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"hub data set openai/gsm8k row 0: .*fields do not fit"):
        turns_of(monkeypatch, "gsm8k", {"text": "?"})


def test_a_failed_hub_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_hub(monkeypatch, ConnectionError("down\nsecond line"))
    for name in ("a/b", "c/d"):
        with pytest.raises(HubUnavailable, match=r"a/b: ConnectionError: down$"):
            list(hub_rows(HubForm(id=name, row_id="x", template="{y}")))
    assert len(calls) == 1


def test_a_hub_out_of_reach_is_given_up_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in hub.PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hub, "CONNECT_SECONDS", 0.2)
    released = threading.Event()

    def hang(*args: object, **options: object) -> None:
        released.wait(60)
        raise OSError("at last")

    monkeypatch.setattr(socket, "create_connection", hang)
    try:
        assert "slow.invalid cannot be reached (no answer in 0.2 s)" in (unreachable("https://slow.invalid") or "")
    finally:
        released.set()  # it was given up while the connection still hung
