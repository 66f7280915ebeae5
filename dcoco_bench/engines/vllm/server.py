"""One server process: its own process group, started, watched, and surely ended."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

POLL_S = 0.25
GRACE_S = 15.0  # SIGINT lets vLLM end its workers; after that, SIGKILL for the whole group
TAIL_LINES = 12
OUT_OF_MEMORY = ("out of memory", "OutOfMemoryError", "Cannot allocate memory", "No available memory for the cache")
NOISE = ("Traceback", "File ", "    ", "^^^", "raise ")


class ServerError(RuntimeError):
    """The server did not start, died, or hangs; the message holds the useful lines of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """Use as a context manager, or `start` and `stop`. Also stopped when the interpreter ends."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], port: int, log: Path) -> None:
        self.command, self.environment, self.port, self.log = list(command), dict(environment), port, log
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float) -> None:
        """Returns when /health answers. Raises ServerError on a crash or after `timeout` seconds; nothing is left."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as sink:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,  # a process group of its own: Ctrl-C comes to us, and we end all of it
            )
        atexit.register(self.stop)
        deadline = time.monotonic() + timeout
        try:
            while not self.healthy():
                self.check()
                if time.monotonic() > deadline:
                    raise ServerError(f"the server did not answer within {timeout:.0f} s: {self.excerpt()}")
                time.sleep(POLL_S)
        except BaseException:
            self.stop()
            raise

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def check(self) -> None:
        """Raises ServerError when the process has ended."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise ServerError(f"the server ended with code {code}: {self.excerpt()}")

    def excerpt(self) -> str:
        """The lines of the log that say what happened: memory first, then errors, else the end."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "it left no log"
        for signs in (OUT_OF_MEMORY, ("Error", "error:", "CRITICAL")):
            telling = [line.strip() for line in lines if any(s in line for s in signs) and not line.startswith(NOISE)]
            if telling:
                return f"{telling[-1][-300:]} (whole log: {self.log})"
        ending = " | ".join(line.strip() for line in lines[-TAIL_LINES:] if line.strip())
        return f"{ending[-600:] or 'nothing was logged'} (whole log: {self.log})"

    def stop(self) -> None:
        """End the whole process group. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.stop)
        group = process.pid  # a session leader's group bears its id
        for signum, wait in ((signal.SIGINT, GRACE_S), (signal.SIGKILL, GRACE_S)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signum)
            if _gone(process, group, wait):
                return

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _gone(process: subprocess.Popen[bytes], group: int, wait: float) -> bool:
    """The leader is reaped and nobody is left in its group."""
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        process.poll()
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        time.sleep(0.05)
    return False
