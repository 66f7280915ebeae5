"""The paper's layouts from real run folders: numbers traced to the log, gaps with commands, and nothing mixed."""

from __future__ import annotations

import pytest

from dcoco_bench.cells import Matrix, Sampling
from dcoco_bench.log import SuiteRecord
from dcoco_bench.log_read import read_run
from dcoco_bench.report.paper.tables import paper_tables
from dcoco_bench.report.points import points_of
from dcoco_bench.report.table import BLANK
from dcoco_bench.stats.paired import paired_ratio

FOUR = Matrix(methods=("vanilla", "dflash", "dcoco", "dcoco@pair=off"), suites=("gsm8k", "mbpp"))


@pytest.fixture
def tables(write_test_run):
    def make(*matrices, edits=(), **more):
        runs = []
        for i, matrix in enumerate(matrices):
            edit = {"edit": edits[i]} if i < len(edits) and edits[i] else {}
            runs.append(read_run(write_test_run(matrix, name=f"r{i}", **edit, **more)))
        return paper_tables([p for run in runs for p in points_of(run)])

    return make


def named(made, name):
    (table,) = [t for t in made.tables if t.name == name]
    return table


def row(table, suite, sampling="0"):
    (found,) = [r for r in table.rows if r["suite"].value == suite and r["sampling"].value == sampling]
    return found


def points(tmp_path, run="r0"):
    return {(p.cell.suite, p.cell.method, p.cell.concurrency): p for p in points_of(read_run(tmp_path / run))}


def test_table_1_has_the_papers_rows_and_the_logs_numbers(tables, tmp_path):
    table = named(tables(FOUR), "table1")
    assert [r["suite"].value for r in table.rows][:3] == ["GSM8K", "MATH-500", "AIME-25"]
    assert [c.title for c in table.shown()] == ["T", "suite", "no-spec", "DFlash", "DSpark", "Domino", "DCOCO"]
    logs = points(tmp_path)
    dflash, vanilla = (logs["gsm8k", m, 1].logs[0].throughput.per_stream_tps for m in ("dflash", "vanilla"))
    entry = row(table, "GSM8K")["dflash"]
    assert entry.value == pytest.approx(dflash)
    assert entry.lo < entry.value < entry.hi
    assert entry.aside.value == pytest.approx(dflash / vanilla)
    assert entry.cells == (f"r0/{logs['gsm8k', 'dflash', 1].cell.id}",)


def test_the_mean_is_unweighted_over_suites_and_the_best_is_marked(tables):
    table = named(tables(FOUR), "table1")
    suites = [row(table, s) for s in ("GSM8K", "MBPP")]
    mean = row(table, "mean of 2")
    for key in ("vanilla", "dflash", "dcoco"):
        assert mean[key].value == pytest.approx(sum(r[key].value for r in suites) / 2)
    assert mean["dflash"].aside.value == pytest.approx(sum(r["dflash"].aside.value for r in suites) / 2)
    for r in (*suites, mean):
        drafted = {k: r[k] for k in ("vanilla", "dflash", "dcoco")}
        assert [k for k, e in drafted.items() if e.best] == [max(drafted, key=lambda k: drafted[k].value)]
    assert len(mean["dflash"].cells) == 2


def test_what_was_not_run_is_blank_and_listed_with_its_command(tables):
    table = named(tables(FOUR), "table1")
    assert row(table, "AIME-25")["dcoco"] == BLANK
    assert row(table, "GSM8K")["domino"] == BLANK
    (same_suites, other_suites) = table.missing
    assert same_suites.command == (
        "dcoco-bench run --engine torch --backbone smollm2-135m --suite gsm8k,mbpp --method vanilla,dspark,domino "
        "--conc 1 --temperature 0 --num-prompts -1 --max-tokens 256 --dtype float32"
    )
    assert "math500,aime25" in other_suites.command


def test_the_command_builds_cells_of_the_same_mode(tables):
    from dcoco_bench.cli import app

    assert tables(FOUR).not_run
    hot = FOUR.model_copy(
        update={"samplings": (Sampling(temperature=1.0, top_p=0.9),), "seeds": (3, 4), "turns": "first"}
    )
    command = named(tables(hot), "table1").missing[0].command
    for words in ("--temperature 1", "--top-p 0.9", "--seeds 3,4", "--turns first"):
        assert words in command
    from typer.testing import CliRunner

    ran = CliRunner().invoke(app, [*command.split()[1:], "--engine", "replay", "--dry-run"])
    assert ran.exit_code == 0, ran.output


def test_seeds_give_a_standard_deviation(tables):
    hot = FOUR.model_copy(update={"samplings": (Sampling(temperature=1.0),), "seeds": (0, 1, 2)})
    entry = row(named(tables(hot), "table7"), "GSM8K", "1")["dflash"]
    assert entry.sd > 0
    assert len(entry.cells) == 3


def test_ablations_are_held_against_dcoco_and_the_papers_changes_stand_apart(tables, tmp_path):
    table = named(tables(FOUR), "table6")
    logs = points(tmp_path)
    ours, theirs = logs["gsm8k", "dcoco@pair=off", 1].logs, logs["gsm8k", "dcoco", 1].logs
    entry = row(table, "GSM8K")["dcoco@pair=off"]
    assert entry.aside.value == pytest.approx(paired_ratio(ours, theirs, "tau").estimate.value - 1)
    assert entry.aside.lo < entry.aside.value < entry.aside.hi
    assert row(table, "GSM8K")["dcoco"].aside is None
    paper = row(table, "paper: mean of 10")
    assert (paper["dcoco@pair=off"].aside.value, paper["backbone"].value) == (-0.073, "qwen3-8b")
    assert paper["dcoco@pair=off"].value is None
    assert paper["dcoco@pair=off"].aside.source
    assert "--checkpoint dcoco@zero=z=FOLDER" in table.missing[0].command


def test_paper_values_never_stand_in_a_measured_row(tables):
    for table in tables(FOUR).tables:
        for r in table.rows:
            labelled = any(str(e.value).startswith("paper") for e in r.values())
            assert labelled == any(e.source for e in r.values()) == (r["origin"].value == "paper")


def test_other_hardware_limits_and_samples_make_tables_of_their_own(tables):
    def move(cell, requests, record):
        record["provenance"] = {"machine": {"cpu": "Other CPU"}}

    made = tables(FOUR, FOUR.model_copy(update={"methods": ("vanilla", "domino")}), edits=(None, move))
    assert [t.rows[0]["hardware"].value for t in made.tables if t.name == "table1"] == [
        "Test CPU, 2 CPUs, 1 threads", "Other CPU",
    ]  # fmt: skip
    assert sum(t.name == "table2" for t in made.tables) == 2
    longer = tables(FOUR, FOUR.model_copy(update={"max_tokens": 512, "methods": ("vanilla", "domino")}))
    assert [t.rows[0]["max_tokens"].value for t in longer.tables if t.name == "table1"] == [256, 512]


def test_a_sample_is_said_in_title_and_rows(tables):
    made = tables(FOUR, origin="sample")
    assert all("SAMPLE prompts" in t.title for t in made.tables)
    assert row(named(made, "table1"), "mean of 2 (sample)")["dflash"].value


def test_merged_runs_fill_one_table_and_keep_their_own_baselines(tables, tmp_path):
    rest = FOUR.model_copy(update={"methods": ("vanilla", "domino")})
    table = named(tables(FOUR, rest), "table1")
    assert any("r0, r1" in note for note in table.notes)
    assert any("Measured more than once" in note for note in table.notes)  # vanilla
    entry = row(table, "GSM8K")["domino"]
    own = points(tmp_path, "r1")
    assert entry.cells == (f"r1/{own['gsm8k', 'domino', 1].cell.id}",)
    assert entry.aside.value == pytest.approx(
        own["gsm8k", "domino", 1].logs[0].throughput.per_stream_tps
        / own["gsm8k", "vanilla", 1].logs[0].throughput.per_stream_tps
    )
    alone = named(tables(FOUR, rest.model_copy(update={"methods": ("domino",)})), "table1")
    lonely = row(alone, "GSM8K")["domino"]
    assert lonely.aside.value is None
    assert "no vanilla cell in this run" in lonely.aside.reason


def test_other_prompts_or_versions_are_left_out_of_the_row_and_the_mean(tables):
    def another(cell, requests, record):
        if (cell.method, cell.suite) == ("dflash", "gsm8k"):
            record["suite"] = SuiteRecord(
                name="gsm8k", version=2, origin="data", prompt_hash="abc", category="math", prompts=12
            )

    table = named(tables(FOUR, edits=(another,)), "table1")
    assert row(table, "GSM8K")["dflash"].value is None
    assert "suite version 2" in row(table, "GSM8K")["dflash"].reason
    assert "no mean" in row(table, "mean of 2")["dflash"].reason
    assert row(table, "mean of 2")["dcoco"].value


def test_a_failed_suite_blanks_the_mean_of_that_method_only(tables):
    def fail(cell, requests, record):
        if (cell.method, cell.suite) == ("dflash", "mbpp"):
            record.update(status="failed", error="the engine died")

    table = named(tables(FOUR, edits=(fail,)), "table1")
    assert "the engine died" in row(table, "MBPP")["dflash"].reason
    assert row(table, "mean of 2")["dflash"].reason == "no mean: 1 of 2 suites, without mbpp"
    assert row(table, "mean of 2")["vanilla"].value


def test_overview_has_a_row_for_each_mode(tables):
    thinking = FOUR.model_copy(update={"thinking": (False, True), "samplings": (Sampling(), Sampling(temperature=1.0))})
    made = tables(thinking)
    table = named(made, "table2")
    assert [r["mode"].value for r in table.rows] == ["smollm2-135m, thinking off", "smollm2-135m, thinking on"]
    assert {c.group for c in table.shown()} == {"", "T=0", "T=1"}
    mean = row(named(made, "table8"), "mean of 2")
    assert table.rows[1]["dflash:T=0"].value == pytest.approx(mean["dflash"].aside.value)


def test_concurrency_shows_the_margin_over_the_best_baseline(tables):
    made = tables(FOUR.model_copy(update={"concurrency": (1, 4)}))
    table = named(made, "concurrency")
    four = next(r for r in table.rows if r["level"].value == 4)
    best = max(("vanilla", "dflash"), key=lambda k: four[k].value)
    assert four["baseline"].value == {"vanilla": "no-spec", "dflash": "DFlash"}[best]
    assert four["margin"].lo < four["margin"].value < four["margin"].hi
    assert next(r for r in table.rows if r["level"].value == "paper: 4")["margin"].value == 0.166
    assert "--conc 8,16,32" in " ".join(m.command for m in table.missing)


def test_coverage_by_slot_with_intervals(tables):
    made = tables(FOUR.model_copy(update={"record_candidates": True}))
    table = next(t for t in made.tables if t.name == "paper-coverage" and "dflash" in t.title)
    slots = {r["slot"].value: r for r in table.rows}
    assert slots["1"]["top_1"].lo < slots["1"]["top_1"].value < slots["1"]["top_1"].hi
    assert slots["1"]["top_2"].value == 1
    block = sum(slots[str(i)]["top_1"].value for i in range(1, 5)) / 4
    assert slots["block mean"]["top_1"].value == pytest.approx(block)
    assert slots["paper: 1"]["top_1"].value == 0.814


def test_two_budgets_are_two_runs_with_other_weights(tables):
    def weights(name):
        return lambda cell, requests, record: record.update(provenance={**record["provenance"], "checkpoint": name})

    def longer(cell, requests, record):
        weights("longer")(cell, requests, record)
        for r in [] if cell.method == "vanilla" else requests:
            out = len(r.output_ids) - 1
            r.rounds.delivered = [5] * (out // 5) + [out % 5] * (out % 5 > 0)
            r.rounds.accepted = [d - 1 for d in r.rounds.delivered]
            r.rounds.drafted = [4] * len(r.rounds.delivered)

    assert "table4" not in {t.name for t in tables(FOUR, edits=(weights("a"),)).tables}
    table = named(tables(FOUR, FOUR, edits=(weights("short"), longer)), "table4")
    assert [c.title for c in table.columns if c.interval][:2] == ["r0", "r1"]
    mine = next(r for r in table.rows if r["method"].value == "DFlash")
    assert mine["change"].value == pytest.approx(mine["after"].value / mine["before"].value - 1, abs=0.02)
    assert mine["change"].lo > 0.3
