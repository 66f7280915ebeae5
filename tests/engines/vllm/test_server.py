"""The life of a server process: started, refused, crashed, hung, and surely ended. The processes here are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dcoco_bench.engines.vllm.server import Server, ServerError, free_port

ANSWERS = """
import http.server, os, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
if len(sys.argv) > 2:
    os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", sys.argv[2]])
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""
STUBBORN = (
    "import signal, time\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\ntime.sleep(600)"
)


def server(tmp_path: Path, code: str, *arguments: str) -> Server:
    port = free_port()
    words = [a.replace("PORT", str(port)) for a in arguments]
    return Server([sys.executable, "-c", code, *words], {"MARK": "here"}, port, tmp_path / "server.log")


def members(group: int) -> list[int]:
    """Live processes of a group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_a_server_is_started_in_a_group_of_its_own_and_all_of_it_is_ended(tmp_path: Path) -> None:
    made = server(tmp_path, ANSWERS, "PORT", STUBBORN)
    made.start(30)
    assert made._process is not None
    group = made._process.pid
    assert group != os.getpgrp()
    while len(members(group)) < 2:
        time.sleep(0.05)
    made.check()
    import dcoco_bench.engines.vllm.server as module

    grace, module.GRACE_S = module.GRACE_S, 1.0  # its child ignores what it is asked
    try:
        made.stop()
    finally:
        module.GRACE_S = grace
    assert members(group) == []
    assert not made.healthy()
    made.stop()


def test_a_crash_at_the_start_is_told_with_the_line_that_matters(tmp_path: Path) -> None:
    code = 'print("INFO loading"); raise ValueError("draft does not fit")'
    with pytest.raises(ServerError, match=r"ended with code 1: ValueError: draft does not fit \(whole log"):
        server(tmp_path, code).start(30)


def test_out_of_memory_comes_before_what_follows_from_it(tmp_path: Path) -> None:
    code = 'print("torch.OutOfMemoryError: CUDA out of memory. Tried 20 GiB"); raise RuntimeError("engine core failed")'
    with pytest.raises(ServerError, match="CUDA out of memory"):
        server(tmp_path, code).start(30)


def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path) -> None:
    made = server(tmp_path, "import time; print('warming up', flush=True); time.sleep(600)")
    with pytest.raises(ServerError, match="did not answer within 1 s: warming up"):
        made.start(1)
    assert made._process is None


def test_a_death_later_on_is_noticed(tmp_path: Path) -> None:
    with server(tmp_path, ANSWERS, "PORT") as made:
        made.start(30)
        assert made._process is not None
        os.kill(made._process.pid, signal.SIGKILL)
        made._process.wait()
        with pytest.raises(ServerError, match="ended with code -9: listening"):
            made.check()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ending_the_harness_ends_the_server(tmp_path: Path, how: signal.Signals) -> None:
    """A run turns SIGTERM into an interrupt; here the interpreter's own way out is enough for both."""
    script = f"""
import signal, sys, time
from pathlib import Path
from dcoco_bench.engines.vllm.server import Server, free_port
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored at first where tests run in the background
port = free_port()
made = Server([sys.executable, "-c", {ANSWERS!r}, str(port)], {{}}, port, Path({str(tmp_path)!r}) / "server.log")
made.start(30)
print(made._process.pid, flush=True)
time.sleep(600)
"""
    harness = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert harness.stdout is not None
    group = int(harness.stdout.readline())
    assert members(group)
    harness.send_signal(how)
    harness.wait(60)
    assert members(group) == []
