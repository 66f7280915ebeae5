"""Servers that a user starts and the harness attaches to; servers that the harness starts and must not leave behind."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcoco_bench.engines.vllm.server import free_port
from tests.server.tool import ON_CPU, SHARED, command, environment, run

START_S = 600.0  # a hang guard, not a measurement


def engine_args() -> list[str]:
    return [word for word in ON_CPU if word not in ("--engine", "vllm")]


@pytest.fixture(scope="module")
def deployed() -> Iterator[str]:
    """`dcoco-bench serve`, as a user would run it."""
    port = free_port()
    words = ("serve", "--method", "dcoco", "--dtype", "float32", "--port", str(port), "--max-num-seqs", "2")
    server = subprocess.Popen(command(*words, "--max-model-len", "512", *engine_args()), env=environment())
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(url), server)
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_for(condition, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while not condition():
        assert process.poll() is None, "the process ended"
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.2)


def test_a_run_attaches_to_a_server_that_serve_started(results: Path, deployed: str) -> None:
    found = run(results, "attached", "--engine", "vllm", "--method", "dcoco", "--base-url", deployed)
    (cell,) = found.cells
    assert cell.finished
    assert len(cell.requests) == 3
    assert all(r.rounds for r in cell.requests)
    assert answers(deployed)  # somebody else's server is left running


def test_a_server_of_another_method_is_not_measured_as_this_one(results: Path, deployed: str) -> None:
    words = ("run", "--result-dir", results, "--run-name", "wrong", *SHARED, "--engine", "vllm")
    done = subprocess.run(
        command(*words, "--method", "domino", "--base-url", deployed),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode != 0
    assert "not the cell's server" in done.stdout + done.stderr


def test_sigterm_leaves_no_server(results: Path) -> None:
    words = ("run", "--result-dir", results, "--run-name", "stopped", *SHARED, "--method", "dflash", *ON_CPU)
    running = subprocess.Popen(command(*words), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: len(servers_of(results / "stopped")) > 2, running)  # the server and its engine's processes
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=120)
    assert running.returncode != 0
    assert not servers_of(results / "stopped")


def servers_of(run_dir: Path) -> list[str]:
    """Live processes that were started by this run: its log folder stands in their open files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [link.readlink() for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if any(str(link).startswith(str(run_dir)) for link in links):
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
