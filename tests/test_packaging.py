"""A new method or suite is one folder or one file: wheels and editable installs pick it up with no edit elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Run without site-packages, so that the installation under test is the only one that Python can see.
LOOK = """
import importlib.util, site, sys
from importlib.resources import files
{enter}
import dcoco_bench.methods.newcomer as newcomer
assert newcomer.METHOD == "stub"
assert importlib.util.find_spec("dcoco_bench.methods.vanilla")
assert importlib.util.find_spec("dcoco_bench.engines.torch")
assert (files("dcoco_bench.methods.newcomer") / "README.md").is_file()
assert (files("dcoco_bench.methods.newcomer") / "checkpoints" / "tiny" / "config.json").is_file()
assert (files("dcoco_bench.suites") / "newcomer.toml").is_file()
assert (files("dcoco_bench.suites") / "samples" / "newcomer.jsonl").is_file()
assert (files("dcoco_bench.backbones") / "smollm2-135m.toml").is_file()
"""


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def add_method(tree: Path, name: str) -> None:
    write(tree / "methods" / name / "__init__.py", 'METHOD = "stub"\n')
    write(tree / "methods" / name / "README.md", "A card.\n")
    write(tree / "methods" / name / "checkpoints" / "tiny" / "config.json", "{}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of this source tree, without weights, with one method and one suite more."""
    copy = tmp_path / "tree"
    skip = shutil.ignore_patterns("checkpoints", "__pycache__", "*.egg-info")
    for folder in ("dcoco_bench", "methods", "suites"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=skip)
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    add_method(copy, "newcomer")
    write(copy / "suites" / "newcomer.toml", "")
    write(copy / "suites" / "samples" / "newcomer.jsonl", "")
    return copy


def build(tree: Path, hook: str) -> Path:
    """Calls the build backend as pip does, without pip and without fetching the backend; unpacks what it made."""
    out = tree.parent / hook
    out.mkdir()
    call = f"from setuptools.build_meta import {hook}; {hook}({str(out)!r})"
    subprocess.run([sys.executable, "-c", call], cwd=tree, check=True, capture_output=True)
    with zipfile.ZipFile(next(out.glob("*.whl"))) as wheel:
        wheel.extractall(out / "installed")
    return out / "installed"


def run_isolated(code: str, cwd: Path) -> None:
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_wheel_holds_methods_and_suites_inside_the_package(tree: Path, tmp_path: Path) -> None:
    installed = build(tree, "build_wheel")
    run_isolated(LOOK.format(enter=f"sys.path.insert(0, {str(installed)!r})"), cwd=tmp_path)
    top_level = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert top_level == {"dcoco_bench"}, "nothing else may land in site-packages"


def test_an_editable_install_sees_methods_added_after_it(tree: Path, tmp_path: Path) -> None:
    installed = build(tree, "build_editable")
    add_method(tree, "latecomer")
    enter = f"site.addsitedir({str(installed)!r})"
    run_isolated(LOOK.format(enter=enter) + "import dcoco_bench.methods.latecomer\n", cwd=tmp_path)
