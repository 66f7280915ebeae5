"""The gate fails on evidence, says when it cannot tell, and never takes another machine's baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcoco_bench.errors import UserError
from dcoco_bench.gate.calibrate import calibrate
from dcoco_bench.gate.checks import Outcome
from dcoco_bench.gate.gate import gate
from dcoco_bench.gate.limits import Limits, share
from tests.gate.synthetic import MACHINE, run


def outcome(metric: str, verdict):
    (found,) = {c.outcome for c in verdict.checks if c.metric == metric and not c.where.startswith("mean of")}
    return found


def test_the_same_run_again_passes() -> None:
    assert gate(run("a", noise=0.02), run("b", noise=0.02, seed=1), Limits()).outcome is Outcome.PASS


def test_a_clear_drop_is_a_regression() -> None:
    verdict = gate(run("a", noise=0.05), run("b", noise=0.05, seed=1, slower=0.15), Limits())
    assert outcome("tps", verdict) is Outcome.REGRESSION
    assert verdict.outcome is Outcome.REGRESSION


def test_a_drop_that_noise_hides_cannot_be_told_and_says_what_would_tell() -> None:
    verdict = gate(run("a", prompts=12, noise=0.3), run("b", prompts=12, noise=0.3, seed=1, slower=0.05), Limits())
    assert verdict.outcome is Outcome.UNCLEAR
    (check,) = [c for c in verdict.checks if c.metric == "tps"]
    assert "more prompts would tell" in check.note or "no number of prompts" in check.note


def test_more_prompts_do_tell() -> None:
    small = gate(run("a", prompts=16, noise=0.2), run("b", prompts=16, noise=0.2, seed=7, slower=0.08), Limits())
    large = gate(run("a", prompts=2000, noise=0.2), run("b", prompts=2000, noise=0.2, seed=7, slower=0.08), Limits())
    assert outcome("tps", small) is Outcome.UNCLEAR
    assert outcome("tps", large) is Outcome.REGRESSION


def test_a_shorter_accepted_length_is_a_regression() -> None:
    verdict = gate(run("a", accepted=3), run("b", accepted=2), Limits())
    assert outcome("tau", verdict) is Outcome.REGRESSION


def test_one_wrong_answer_and_one_failure_are_regressions() -> None:
    assert outcome("mismatch", gate(run("a"), run("b", wrong=1), Limits())) is Outcome.REGRESSION
    assert outcome("failures", gate(run("a"), run("b", failed=1), Limits())) is Outcome.REGRESSION


def test_an_allowance_is_exceeded_only_beyond_chance() -> None:
    allowed = Limits(max_mismatch=0.05)
    assert outcome("mismatch", gate(run("a"), run("b", wrong=5), allowed)) is Outcome.PASS
    assert outcome("mismatch", gate(run("a"), run("b", wrong=7), allowed)) is Outcome.UNCLEAR
    assert outcome("mismatch", gate(run("a"), run("b", wrong=20), allowed)) is Outcome.REGRESSION


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"machine": {"cpu": "another", "cpus_usable": 2}}, "other hardware"),
        ({"packages": {"torch": "2"}}, "other versions"),
        ({"checkpoint": "another"}, "other draft"),
    ],
)
def test_another_machine_version_or_draft_is_no_baseline(other: dict[str, object], reason: str) -> None:
    verdict = gate(run("a", provenance={**MACHINE, **other}), run("b"), Limits())
    assert outcome("tps", verdict) is Outcome.NO_BASELINE
    assert verdict.outcome is Outcome.NO_BASELINE
    assert any(reason in c.note for c in verdict.checks)


def test_accepted_length_needs_no_common_hardware() -> None:
    elsewhere = {**MACHINE, "machine": {"cpu": "another", "cpus_usable": 2}}
    assert outcome("tau", gate(run("a", provenance=elsewhere), run("b"), Limits())) is Outcome.PASS


def test_another_suite_version_is_no_baseline() -> None:
    assert gate(run("a", version=2), run("b"), Limits()).outcome is Outcome.NO_BASELINE


def test_a_cell_that_the_baseline_lacks_is_no_baseline() -> None:
    assert gate(run("a"), run("b", suites=("gsm8k", "mbpp")), Limits()).outcome is Outcome.NO_BASELINE


def test_suites_are_pooled_and_the_pool_can_tell_what_one_cannot() -> None:
    suites = tuple(f"s{i}" for i in range(10))
    old = run("a", prompts=40, noise=0.12, suites=suites)
    new = run("b", prompts=40, noise=0.12, seed=1, slower=0.10, suites=suites)
    checks = gate(old, new, Limits()).checks
    assert any(c.outcome is Outcome.UNCLEAR for c in checks if c.metric == "tps")
    (pooled,) = [c for c in checks if c.metric == "tps" and c.where.startswith("mean of 10 suites")]
    assert pooled.outcome is Outcome.REGRESSION


def test_calibration_refuses_a_baseline_noisier_than_its_limit() -> None:
    quiet, problems = calibrate([run("a", noise=0.01), run("b", noise=0.01, seed=1)], Limits())
    assert problems == []
    assert {n.metric: n.fits for n in quiet} == {"tps": True, "tau": True}
    noisy, _ = calibrate([run("a", noise=0.4), run("b", noise=0.4, seed=1)], Limits())
    assert {n.metric: n.fits for n in noisy}["tps"] is False


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), (" 0 ", 0.0), ("100%", 1.0)])
def test_shares(text: str, value: float) -> None:
    assert share(text, "x") == value


@pytest.mark.parametrize("text", ["5", "-1%", "abc", "nan", ""])
def test_what_is_no_share_is_named(text: str) -> None:
    with pytest.raises(UserError, match="max_tps_drop"):
        Limits().with_values({"max_tps_drop": text})


def test_limits_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('max_tps_drop = "3%"\nmax_failures = 0.1\n')
    assert Limits.read(file) == Limits(max_tps_drop=0.03, max_failures=0.1)
    file.write_text("max_tps = 1\n")
    with pytest.raises(UserError, match="did you mean 'max_tps_drop'"):
        Limits.read(file)
