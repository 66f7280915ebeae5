"""`--engine-arg` of the vLLM engine: a few of our own, every other passes through to the server as a flag."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlparse

from dcoco_bench.engines.synthetic import ARGUMENT
from dcoco_bench.errors import UserError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
OURS = ("host", "port", "model", "served-model-name", "speculative-config", "api-key", "trust-remote-code")


@dataclass(frozen=True)
class Options:
    python: str = sys.executable  # the interpreter that has vLLM
    base_url: str | None = None  # attach to this server instead of starting one
    startup_timeout: float = 600.0  # seconds until the server must answer
    request_timeout: float = 600.0  # seconds without a token before a request counts as hung
    synthetic: Mapping[str, str] = field(default_factory=dict)  # synthetic-tau, see `engines.synthetic`
    environment: Mapping[str, str] = field(default_factory=dict)  # env.NAME=value
    flags: Mapping[str, str] = field(default_factory=dict)  # passed through

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Options:
        """Raises UserError naming the argument."""
        own: dict[str, object] = {}
        environment: dict[str, str] = {}
        flags: dict[str, str] = {}
        for key, value in args.items():
            if key == "python":
                own[key] = value
            elif key == ARGUMENT:
                own["synthetic"] = {key: value}
            elif key == "base-url":
                own["base_url"] = _local(value)
            elif key in ("startup-timeout", "request-timeout"):
                own[key.replace("-", "_")] = _seconds(key, value)
            elif key.startswith("env."):
                environment[key.removeprefix("env.")] = value
            elif key in OURS:
                raise UserError(f"--engine-arg {key}: set by the harness itself; leave it out")
            else:
                flags[key] = value
        return cls(**own, environment=environment, flags=flags)  # type: ignore[arg-type]

    def server_flags(self) -> list[str]:
        """`enforce-eager=true` → `--enforce-eager`; any other value → `--key value`."""
        words: list[str] = []
        for key, value in self.flags.items():
            words += [f"--{key}"] if value == "true" else [f"--{key}", value]
        return words


def _seconds(key: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"--engine-arg {key}={value}: must be seconds, above 0")
    return seconds


def _local(value: str) -> str:
    """A server is only ever spoken to on this machine: counters are process-wide, and prompts stay here."""
    url = urlparse(value)
    if url.scheme != "http" or url.hostname not in LOOPBACK or not url.port:
        raise UserError(f"--base-url {value}: give a server on this machine, e.g. http://127.0.0.1:8000")
    return f"http://{'[::1]' if url.hostname == '::1' else url.hostname}:{url.port}"
