"""The example workflow is YAML, and calls the tool by commands and flags that exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from dcoco_bench.cli import app

WORKFLOW = Path(__file__).parents[2] / ".github" / "workflows" / "speed-gate.yml"


def test_every_command_and_flag_exists() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["gate"]["steps"]
    script = "\n".join(step.get("run", "") for step in steps)
    called = re.findall(r"dcoco-bench (\w+)", script)
    assert called == ["run", "gate"]
    known = {command.name for command in app.registered_commands}
    assert set(called) <= known
    from inspect import signature

    from dcoco_bench.cli.gate import gate

    flags = {f.replace("-", "_") for f in re.findall(r"--([a-z-]+)", yaml.dump(steps[3]))}
    assert flags <= set(signature(gate).parameters)
