"""`report` on real run folders: values, gaps with reasons, labels, and the same bytes every time."""

from __future__ import annotations

import csv

import pytest
from rich.console import Console

from dcoco_bench.cells import Matrix, Sampling
from dcoco_bench.errors import UserError
from dcoco_bench.log_read import read_run
from dcoco_bench.report.command import report
from dcoco_bench.report.console import summary_table

BASIC = Matrix(methods=("vanilla", "dflash"), suites=("gsm8k",), concurrency=(1, 4))
TWO = Matrix(methods=("vanilla", "dflash"), suites=("gsm8k", "mbpp"))


def rows(out, name="results"):
    with (out / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pick(table, **where):
    (row,) = [r for r in table if all(r[k] == v for k, v in where.items())]
    return row


def test_headline_numbers_agree_with_the_log(write_test_run, tmp_path):
    run = write_test_run(BASIC)
    made = report([run], tmp_path / "out")
    table = rows(tmp_path / "out")
    assert [(r["concurrency"], r["method"]) for r in table] == [
        ("1", "vanilla"), ("1", "dflash"), ("4", "vanilla"), ("4", "dflash")
    ]  # fmt: skip
    ours, base = pick(table, concurrency="1", method="dflash"), pick(table, concurrency="1", method="vanilla")
    requests = next(c for c in read_run(run).cells if c.id == ours["cells"]).requests
    tps = sum(len(r.output_ids) for r in requests) / sum(r.end - r.start for r in requests)
    assert float(ours["per_stream_tps"]) == pytest.approx(tps)
    assert float(ours["speedup"]) == pytest.approx(tps / float(base["per_stream_tps"]))
    assert float(ours["speedup_lo"]) < float(ours["speedup"]) < float(ours["speedup_hi"])
    assert float(ours["tau"]) <= float(ours["tau_raw"])
    assert float(ours["verify_s"]) == pytest.approx(0.009)
    assert base["tau"] == "1"
    assert base["speedup"] == "1"
    assert base["acceptance_rate"] == ""  # missing, not 0
    assert "nothing is drafted" in base["notes"]
    assert made.warnings == []
    text = made.markdown.read_text(encoding="utf-8")
    assert "round+bonus/delivered" in text
    assert "Test CPU" in text


def test_same_log_same_bytes(write_test_run, tmp_path):
    run = write_test_run(BASIC)
    for out in ("a", "b"):
        report([run], tmp_path / out)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert len(files) >= 4
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_no_baseline_gives_a_reason_and_a_command(write_test_run, tmp_path):
    report([write_test_run(Matrix(methods=("dflash",), suites=("gsm8k",)))], tmp_path / "out")
    (row,) = rows(tmp_path / "out")
    assert row["speedup"] == ""
    assert "dcoco-bench run --method vanilla,dflash" in row["notes"]
    assert not (tmp_path / "out" / "tables" / "losslessness.csv").exists() or "no vanilla" in str(
        rows(tmp_path / "out", "losslessness")
    )


def test_slower_than_vanilla_is_shown_plainly(write_test_run, tmp_path):
    def slow(cell, requests, record):
        if cell.method == "dflash":
            for r in requests:
                r.end += 5

    report([write_test_run(BASIC, edit=slow)], tmp_path / "out")
    assert float(pick(rows(tmp_path / "out"), concurrency="4", method="dflash")["speedup"]) < 0.5


def test_failed_cell_is_shown_and_not_averaged(write_test_run, tmp_path):
    def fail(cell, requests, record):
        if (cell.method, cell.suite) == ("dflash", "mbpp"):
            record.update(status="failed", error="the engine died")

    made = report([write_test_run(TWO, edit=fail)], tmp_path / "out")
    row = pick(rows(tmp_path / "out"), suite="mbpp", method="dflash")
    assert row["per_stream_tps"] == row["tau"] == row["speedup"] == ""
    assert "failed: the engine died" in row["flags"]
    mean = pick(rows(tmp_path / "out", "means"), method="dflash")
    assert (mean["suites"], mean["left_out"]) == ("1 of 2", "mbpp")
    assert float(mean["tau"]) == pytest.approx(
        float(pick(rows(tmp_path / "out"), suite="gsm8k", method="dflash")["tau"])
    )
    assert any("the engine died" in w for w in made.warnings)


def test_mean_is_of_ratios(write_test_run, tmp_path):
    report([write_test_run(TWO)], tmp_path / "out")
    per_suite = [float(r["speedup"]) for r in rows(tmp_path / "out") if r["method"] == "dflash"]
    mean = pick(rows(tmp_path / "out", "means"), method="dflash")
    assert float(mean["speedup"]) == pytest.approx(sum(per_suite) / 2)
    assert float(mean["speedup_lo"]) < float(mean["speedup"]) < float(mean["speedup_hi"])
    assert pick(rows(tmp_path / "out", "means"), method="vanilla")["tau"] == "1"


def test_unfinished_cell_is_blank_with_the_command(write_test_run, tmp_path):
    report([write_test_run(TWO, edit=lambda c, *_: (c.suite, c.method) != ("mbpp", "dflash"))], tmp_path / "out")
    row = pick(rows(tmp_path / "out"), suite="mbpp", method="dflash")
    assert row["tau"] == ""
    assert "--resume" in row["notes"]


def test_inactive_drafter_is_flagged_and_not_averaged(write_test_run, tmp_path):
    def idle(cell, requests, record):
        if (cell.method, cell.suite) == ("dflash", "mbpp"):
            for r in requests:
                n = len(r.output_ids) - 1
                r.rounds.drafted, r.rounds.accepted, r.rounds.delivered = [4] * n, [0] * n, [1] * n

    report([write_test_run(TWO, edit=idle)], tmp_path / "out")
    assert "drafter inactive" in pick(rows(tmp_path / "out"), suite="mbpp", method="dflash")["flags"]
    assert pick(rows(tmp_path / "out", "means"), method="dflash")["suites"] == "1 of 2"


def test_broken_identity_blanks_the_cell(write_test_run, tmp_path):
    def lie(cell, requests, record):
        if cell.method == "dflash" and cell.concurrency == 1:
            requests[0].rounds.accepted[0] = 5

    report([write_test_run(BASIC, edit=lie)], tmp_path / "out")
    row = pick(rows(tmp_path / "out"), concurrency="1", method="dflash")
    assert row["tau"] == ""
    assert "accepted 5 of 4 drafted" in row["flags"]


def test_sample_is_labelled_everywhere(write_test_run, tmp_path):
    sample = write_test_run(BASIC, name="sampled", origin="sample")
    made = report([sample, write_test_run(BASIC, name="full")], tmp_path / "out")
    assert {r["suite"] for r in rows(tmp_path / "out") if r["run"] == "sampled"} == {"gsm8k (sample)"}
    text = made.markdown.read_text(encoding="utf-8")
    assert "**Sample prompts.**" in text
    for table in made.tables:
        marked = {"(sample)" in str(row["suite"].value) for row in table.rows if "suite" in row}
        assert len(marked) <= 1, "sample and suite share a table"
        assert ("SAMPLE" in table.title) == (True in marked)
    console = Console(record=True, width=240)
    console.print(summary_table(read_run(sample)))
    assert "SAMPLE prompts" in console.export_text()


def test_other_hardware_and_definitions_are_not_mixed(write_test_run, tmp_path):
    def move(cell, requests, record):
        if cell.method == "dflash" and cell.concurrency == 1:
            record["provenance"] = {"machine": {"cpu": "Other CPU"}}
        if cell.method == "dflash" and cell.concurrency == 4:
            record["definitions"] = {"tau": "tokens_per_verify"}

    made = report([write_test_run(BASIC, edit=move)], tmp_path / "out")
    table = rows(tmp_path / "out")
    assert "other hardware" in pick(table, concurrency="1", method="dflash")["notes"]
    other = pick(table, concurrency="4", method="dflash")
    assert other["tau"] == ""
    assert "tokens_per_verify" in other["notes"]
    assert sum(t.name == "results" for t in made.tables) == 2


def test_losslessness_with_control(write_test_run, tmp_path):
    def differ(cell, requests, record):
        if cell.method == "dflash":
            requests[3].output_ids[7] = -5

    matrix = Matrix(methods=("vanilla", "vanilla@repeat=1", "dflash"), suites=("gsm8k",))
    report([write_test_run(matrix, edit=differ)], tmp_path / "out")
    table = rows(tmp_path / "out", "losslessness")
    ours = pick(table, method="dflash")
    assert float(ours["match_rate"]) == pytest.approx(11 / 12)
    assert float(ours["control_rate"]) == 1
    assert ours["first_divergence"] == "gsm8k-3 turn 0 token 7"
    assert float(pick(rows(tmp_path / "out"), method="vanilla@repeat=1")["speedup"]) == pytest.approx(1, abs=0.05)


def test_no_losslessness_above_temperature_zero(write_test_run, tmp_path):
    hot = Matrix(
        methods=("vanilla", "dflash"), suites=("gsm8k",), samplings=(Sampling(temperature=1.0),), seeds=(0, 1, 2)
    )
    made = report([write_test_run(hot)], tmp_path / "out")
    assert "losslessness" not in {t.name for t in made.tables}
    row = pick(rows(tmp_path / "out"), method="dflash")
    assert row["seeds"] == "0 1 2"
    assert float(row["tau_sd"]) > 0
    assert "±" in made.markdown.read_text(encoding="utf-8")


def test_positions_and_coverage(write_test_run, tmp_path):
    matrix = Matrix(methods=("vanilla", "dflash"), suites=("gsm8k",), record_candidates=True)
    report([write_test_run(matrix)], tmp_path / "out")
    marginal, conditional = rows(tmp_path / "out", "positions")
    assert (marginal["definition"], conditional["definition"]) == ("marginal", "conditional")
    raw = float(pick(rows(tmp_path / "out"), method="dflash")["tau_raw"])
    assert sum(float(marginal[f"position_{i}"]) for i in range(4)) == pytest.approx(raw - 1)
    block = pick(rows(tmp_path / "out", "coverage"), slot="block mean")
    assert float(block["top_1"]) < 1
    assert float(block["top_2"]) == float(block["recoverable"]) == 1


def test_bad_input(write_test_run, tmp_path):
    with pytest.raises(UserError, match="not a run folder"):
        report([tmp_path / "nothing"], tmp_path / "out")
    with pytest.raises(UserError, match="no run to report"):
        report([], tmp_path / "out")
    run = write_test_run(BASIC)
    with pytest.raises(UserError, match="given twice"):
        report([run, run], tmp_path / "out")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot write"):
        report([run], tmp_path / "file")


def test_few_prompts_say_why_there_is_no_interval(write_test_run, tmp_path):
    made = report([write_test_run(BASIC, prompts=3)], tmp_path / "out")
    row = pick(rows(tmp_path / "out"), concurrency="1", method="dflash")
    assert row["speedup_lo"] == ""
    assert "no interval: 3 prompts" in row["notes"]
    assert "no interval: 3 prompts" in made.markdown.read_text(encoding="utf-8")


def test_summary_table_holds_the_headline_and_the_cost(write_test_run):
    def fail(cell, requests, record):
        if (cell.method, cell.concurrency) == ("dflash", 4):
            record.update(status="failed", error="the engine died")

    console = Console(record=True, width=100)
    console.print(summary_table(read_run(write_test_run(BASIC, edit=fail))))
    text = console.export_text()
    for word in ("TPS/stream", "speed-up", "Cost of a round", "verify ms", "gsm8k dflash c=4: failed: the engine died"):
        assert word in text


def test_drafters_are_held_against_one_of_them(write_test_run, tmp_path):
    """dcoco's rounds cost 1.5 times dflash's here, and it accepts all: the ratios are known from the logs."""

    def perfect(cell, requests, record):
        if cell.method != "dcoco":
            return
        for r in requests:
            out, rounds = len(r.output_ids) - 1, r.rounds
            rounds.delivered = [5] * (out // 5) + [out % 5] * (out % 5 > 0)
            rounds.accepted = [d - 1 for d in rounds.delivered]
            rounds.drafted = [4] * len(rounds.delivered)
            r.end = r.first_token + 1.5 * 0.015 * len(rounds.delivered)

    matrix = TWO.model_copy(update={"methods": ("vanilla", "dflash", "dcoco")})
    report([write_test_run(matrix, edit=perfect)], tmp_path / "out")
    found = rows(tmp_path / "out", "versus")
    assert {r["method"] for r in found} == {"dcoco"}
    tables = {(r["suite"], r["method"]): r for r in rows(tmp_path / "out")}
    for suite in ("gsm8k", "mbpp"):
        row = pick(found, suite=suite)
        ours, theirs = tables[suite, "dcoco"], tables[suite, "dflash"]
        for ratio, key in (("tau", "tau"), ("tps", "per_stream_tps"), ("round", "round_time_s")):
            assert float(row[ratio]) == pytest.approx(float(ours[key]) / float(theirs[key]))
        assert float(row["tau"]) > 1.3
        assert float(row["tau_lo"]) < float(row["tau"]) < float(row["tau_hi"])
    mean = pick(found, suite="mean of suites (2 of 2)")
    assert float(mean["tau"]) == pytest.approx(sum(float(pick(found, suite=s)["tau"]) for s in ("gsm8k", "mbpp")) / 2)

    report([tmp_path / "r1"], tmp_path / "other", against="dcoco")
    back = pick(rows(tmp_path / "other", "versus"), suite="gsm8k", method="dflash")
    assert float(back["tau"]) == pytest.approx(1 / float(pick(found, suite="gsm8k")["tau"]))
