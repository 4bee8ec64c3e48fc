"""The report: one page that carries all it shows, and two kinds of lines for scripts."""

import base64
import hashlib
import json
import re
import shutil
import tomllib
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import (
    HOSTILE,
    HOSTILE_ID,
    add_analysis,
    add_critic,
    add_hostile_rollout,
    add_truth,
)

from analysis import figures
from analysis.__main__ import main
from analysis.reading import labels, read_run
from analysis.report.costs import costs_table
from analysis.report.others import OTHERS, found_html, summary_rows
from analysis.report.page import script_json
from analysis.report.rollouts import Extent, viewer_data
from analysis.report.run_files import chosen_iterations
from analysis.report.truths import truth_tables
from analysis.training_curves import METRICS, draw_metric, running_mean, shown_metrics, time_shares
from vineppo.errors import UserError
from vineppo.run_dir import RunDir

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """Collects what a page would load or run, and the viewer's data."""

    def __init__(self, html):
        super().__init__()
        self.addresses, self.tags, self.handlers, self.scripts = [], set(), [], []
        self.policy, self._is_script = None, False
        self.feed(html)
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.add(tag)
        self.addresses += [attributes[key] for key in ("src", "href") if key in attributes]
        self.handlers += [key for key in attributes if key.startswith("on")]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag == "script":
            self.scripts.append("")
            self._is_script = True

    def handle_data(self, data):
        if self._is_script:
            self.scripts[-1] += data

    def handle_endtag(self, _tag):
        self._is_script = False


def make_page(*paths, out, options=()):
    assert main(["report", *map(str, paths), "--out", str(out), *options]) == 0
    html = (out / "report.html").read_text()
    return html, Page(html)


def view(*paths, truth=(), iterations="last", num_problems=16, num_responses=8):
    """The tables that the viewer shows of each run."""
    runs = [read_run(path) for path in paths]
    extent = Extent(iterations, num_problems, num_responses)
    tables = truth_tables(paths, truth, paths[0] / "out")
    return [run["tables"] for run in viewer_data(runs, labels(runs), extent, tables)["runs"]]


def steps_of(table):
    return {
        (problem["id"], response["index"], place): step
        for problem in table["problems"]
        for response in problem["responses"]
        for place, step in enumerate(response["steps"])
    }


def the_error(capsys, *arguments):
    """The one line of a report that must fail."""
    assert main(["report", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error.removeprefix("error: ")


def add_metrics(path, **metrics):
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    lines = [json.dumps(row | metrics) + "\n" for row in rows]
    (path / "metrics.jsonl").write_text("".join(lines))


def test_the_printed_lines_are_the_start_and_end_of_each_run(two_run_paths, tmp_path, capsys):
    make_page(*two_run_paths, out=tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    for line, path in zip(lines[:2], two_run_paths, strict=True):
        start, end = (RunDir(path).read_evaluation(i)["pass@1"] for i in (0, 12))
        assert line == f"RUN {path} pass@1 {start:.3f} -> {end:.3f}"
    assert lines[2:] == [f"REPORT {tmp_path}/out/report.html"]


def test_the_page_loads_nothing_and_runs_only_its_own_script(two_run_paths, tmp_path):
    add_hostile_rollout(two_run_paths[0], 14)
    html, page = make_page(*two_run_paths, out=tmp_path / "out")
    outside = [address for address in page.addresses if not address.startswith("#")]
    assert outside
    assert all(address.startswith("data:image/svg+xml;base64,") for address in outside)
    assert page.tags.isdisjoint({"link", "iframe", "object", "b"})  # a run is named "gae <b>"
    assert "gae &lt;b&gt;" in html
    assert not re.search(r"url\(|@import", html)
    assert page.handlers == []
    assert len(page.scripts) == 2  # the data and the viewer
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert "default-src 'none'" in page.policy
    assert f"script-src 'sha256-{digest}'" in page.policy
    (problem,) = page.data["runs"][0]["tables"][-1]["problems"]
    assert problem["id"] == HOSTILE_ID
    assert "".join(step["text"] for step in problem["responses"][0]["steps"]) == HOSTILE


@given(st.text())
def test_no_text_leaves_the_script_element_that_carries_it(text):
    written = script_json({"text": text})
    assert "<" not in written
    assert json.loads(written) == {"text": text}


def test_each_step_has_its_own_text_advantage_and_returns(run_path):
    ((table,),) = view(run_path)
    steps = steps_of(table)
    assert len(steps) == 3 * 2 * 3  # problems, rollouts, steps
    texts = [steps["sum/0", 0, place]["text"] for place in range(3)]
    assert texts == ["0+1=1\n", "<0&2\n", "#1</s>"]
    assert steps["sum/1", 1, 0] == {
        "text": "1+1=2\n",
        "advantage": 0.25,
        "returns": [0, 1, 0, 1],
    }
    assert steps["sum/1", 1, 1]["advantage"] == -0.75
    assert (table["iteration"], table["scale"], table["low"], table["high"]) == (12, 1, 0, 1)
    assert table["problems"][2]["prompt"] == "2+1?"
    assert table["problems"][2]["rewards"] == [0, 1]


def test_a_state_has_its_truth_in_every_rollout_that_passes_it(run_path, tmp_path):
    # Both rollouts of a problem are the same tokens, so that their states are one.
    add_truth(tmp_path, run_path, 11, {("sum/0", 0, 1): 15, ("sum/2", 1, 2): 50})
    ((table,),) = view(run_path, truth=[tmp_path])
    truths = {key: step["truth"] for key, step in steps_of(table).items() if "truth" in step}
    assert truths.keys() == {("sum/0", i, 1) for i in (0, 1)} | {("sum/2", i, 2) for i in (0, 1)}
    # Brown, Cai & DasGupta, 2001: Jeffreys' interval of 15 of 50 is (0.1869, 0.4355).
    expected = {"correct": 15, "samples": 50, "low": 0.1869, "high": 0.4355, "policy": 11}
    assert truths["sum/0", 0, 1] == truths["sum/0", 1, 1] == expected
    assert truths["sum/2", 0, 2]["high"] == 1


def test_the_policy_that_sampled_a_rollout_goes_before_the_one_after_it(run_path):
    out = run_path / "analysis" / "ground-truth"  # where ground-truth writes by default
    add_truth(out, run_path, 12, {("sum/0", 0, 0): 10, ("sum/0", 0, 1): 20})
    add_truth(out, run_path, 11, {("sum/0", 0, 1): 30})
    ((table,),) = view(run_path)
    steps = steps_of(table)
    shown = [(steps["sum/0", 0, i]["truth"][k]) for i in (0, 1) for k in ("correct", "policy")]
    assert shown == [10, 12, 30, 11]


def test_problems_with_truth_come_first_and_the_rest_is_cut(run_path, tmp_path):
    add_truth(tmp_path, run_path, 11, {("sum/2", 0, 1): 15})
    ((table,),) = view(run_path, truth=[tmp_path], num_problems=2, num_responses=1)
    assert [problem["id"] for problem in table["problems"]] == ["sum/2", "sum/0"]
    assert [len(problem["responses"]) for problem in table["problems"]] == [1, 1]
    assert [len(problem["rewards"]) for problem in table["problems"]] == [2, 2]
    assert table["num_problems"] == 3


def test_truth_that_cannot_be_shown_is_one_line(two_run_paths, tmp_path, capsys):
    run_path, other = two_run_paths
    assert the_error(capsys, run_path, "--truth", tmp_path / "no").endswith("no is no directory\n")
    error = the_error(capsys, run_path, "--truth", other)
    assert error.startswith(f"{run_path} has no ground truth; make it with: ")
    table = add_truth(tmp_path / "truth", run_path, 11, {("sum/0", 0, 1): 15})
    run_dir = RunDir(run_path)
    rows = run_dir.read_rollouts(12)
    run_dir.write_rollouts(12, [row | {"step_starts": [0, 5, 11]} for row in rows])
    error = the_error(capsys, run_path, "--truth", tmp_path / "truth")
    assert error.startswith(f"{table} is of another run: its state ('sum/0', 0, 1) is none of")
    table.write_bytes(table.read_bytes()[:100])
    error = the_error(capsys, run_path, "--truth", tmp_path / "truth")
    assert error.startswith(f"{table} is no complete parquet file: ")


def test_the_right_answer_is_shown_of_the_very_problem(run_path, tmp_path):
    run_dir = RunDir(run_path)
    rows = run_dir.read_rollouts(12)
    renamed = [
        row | {"problem_id": row["problem_id"].replace("sum", "jsonl/train")} for row in rows
    ]
    run_dir.write_rollouts(12, renamed)
    problems = tmp_path / "problems.jsonl"
    lines = [{"q": "0+1?", "a": "1"}, {"q": "7+7?", "a": "4"}, {"q": "2+1?", "a": "3"}]
    problems.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = {
        "kind": "jsonl",
        "train_path": str(problems),
        "test_path": str(problems),
        "num_test_problems": None,
        "question_field": "q",
        "answer_field": "a",
        "solution_field": None,
        "id_field": None,
        "prompt": {"kind": "template", "template": "{question}"},
        "response_template": "{solution}",
        "grading": {
            "extraction": "hash",
            "num_workers": 1,
            "time_limit_s": 1.0,
            "truncated_reward": None,
        },
    }
    config = json.loads(run_dir.config_path.read_text())
    run_dir.config_path.write_text(json.dumps(config | {"task": task}))
    ((table,),) = view(run_path)
    # The second problem of the file is not that of the run: the file has changed since.
    assert [problem["answer"] for problem in table["problems"]] == ["1", None, "3"]
    problems.unlink()
    ((table,),) = view(run_path)
    assert [problem["answer"] for problem in table["problems"]] == [None] * 3


def test_without_a_tokenizer_the_texts_are_whole(run_path):
    shutil.rmtree(run_path / "final")
    ((table,),) = view(run_path)
    response = table["problems"][0]["responses"][0]
    assert response["text"] == "0+1=1\n<0&2\n#1"
    assert response["steps"][0] == {"advantage": 0.25, "returns": [0, 1, 0, 1]}


def test_an_embedded_model_lends_its_tokenizer(run_path):
    shutil.rmtree(run_path / "final")
    config = json.loads((run_path / "config.json").read_text())
    config["model"] = {"path": "embedded:arithmetic_short"}
    (run_path / "config.json").write_text(json.dumps(config))
    ((table,),) = view(run_path)
    assert table["problems"][0]["responses"][0]["text"] is None


def test_a_run_without_tables_still_has_a_report(run_path, tmp_path):
    shutil.rmtree(run_path / "rollouts")
    _, page = make_page(run_path, out=tmp_path / "out")
    assert page.data["runs"][0]["tables"] == []


def test_a_group_method_without_values_beside_a_critic_run(two_run_paths, tmp_path, capsys):
    group, critic = two_run_paths
    shutil.rmtree(group / "values")
    add_critic(critic, 0.625)
    add_metrics(critic, **{"critic/explained_variance": 0.5, "critic/loss": 0.125})
    html, page = make_page(group, critic, out=tmp_path / "out")
    of_group, of_critic = (steps_of(run["tables"][-1]) for run in page.data["runs"])
    assert of_group["sum/0", 0, 0] == {"text": "0+1=1\n", "advantage": 0.25}
    assert of_critic["sum/0", 0, 0] == {"text": "0+1=1\n", "advantage": 0.25, "critic": 0.625}
    assert "critic's explained variance, critic's loss by iteration" in unescape(html)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "RUN",
        "RUN",
        "REPORT",
    ]


def test_numbers_of_a_critic_that_diverged_are_left_out(run_path):
    add_critic(run_path, float("nan"))
    ((table,),) = view(run_path)
    assert steps_of(table)["sum/0", 0, 0]["critic"] is None
    assert "NaN" not in script_json({"tables": [table]})


@pytest.mark.parametrize("kind", ["rollouts", "values"])
def test_half_a_table_is_one_clear_line(run_path, kind, capsys):
    path = run_path / kind / "iter_000012.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert the_error(capsys, run_path).startswith(f"{path} is no complete parquet file: ")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("ends", [1, 7, 12]), ("all", list(range(1, 13))), ("last", [12]), ("9,3,9", [3, 9])],
)
def test_the_iterations_that_are_shown(wanted, expected):
    assert chosen_iterations(range(1, 13), wanted, Path("run")) == expected


def test_few_iterations_are_shown_once():
    assert chosen_iterations([4], "ends", Path("run")) == [4]
    assert chosen_iterations([4, 8], "ends", Path("run")) == [4, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--iterations", "3"], "has no rollouts of iteration 3 (only of 12)"),
        (["--iterations", "some"], "--iterations must be ends, all, last or numbers with commas"),
        (["--problems", "0"], "--problems and --responses must be at least 1, got 0 and 8"),
        (["--with", "nowhere"], "--with nowhere is no directory"),
    ],
)
def test_options_that_cannot_be_are_one_line(run_path, options, message, capsys):
    assert message in the_error(capsys, run_path, *options)


def test_the_costs_are_means_over_the_runs_of_a_method(run_path, tmp_path):
    shutil.copytree(run_path, tmp_path / "second")
    add_metrics(tmp_path / "second", **{"tokens/values": 60_000, "tokens/prompt": None})
    html = costs_table([read_run(run_path), read_run(tmp_path / "second")])
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    # 12 iterations of 8,000 tokens, and of 40,000 or 60,000; 120 s.
    assert cells == ["vine", "2", "12", "96,000", "600,000", "–", "–", "120 s", "5,800", "–"]


def test_what_other_analyses_found_is_shown_and_the_rest_is_named(run_path, tmp_path):
    add_analysis(run_path / "analysis" / "value-accuracy")
    html, _ = make_page(run_path, out=tmp_path / "out")
    assert "<h2>Calibration: how good the values are</h2>" in html
    assert html.count('alt="value accuracy') == 2
    # An inch of a figure is 105 pixels of the page.
    assert 'alt="value accuracy reliability" width="105"' in html
    for cell in ("runs / ppo / critic", "512", "0.125 (0.0625\u00a0to\u00a00.25)", "&lt;b&gt;"):
        assert re.search(rf"<td[^>]*>{re.escape(cell)}</td>", html)
    missing = re.findall(r"<code>([a-z-]+)</code> not computed", html)
    assert missing == [other.name for other in OTHERS if other.name != "value-accuracy"]
    assert f"python -m analysis NAME {run_path} --out {tmp_path}/out" in html


@pytest.mark.parametrize("place", ["", "value-accuracy"])
def test_other_analyses_are_found_in_a_folder_and_under_their_name(place, tmp_path):
    add_analysis(tmp_path / place)
    by_name = {other.name: other for other in OTHERS}
    assert found_html(by_name["value-accuracy"], [tmp_path], []).count("<img") == 2
    assert found_html(by_name["action-ranking"], [tmp_path], []) == ""


def test_a_damaged_summary_is_one_line(tmp_path):
    (tmp_path / "summary.json").write_text('{"temperature": ')
    with pytest.raises(UserError, match=r"summary.json is no summary of analyses"):
        found_html(OTHERS[-1], [tmp_path], [])


def test_a_summary_is_rows_of_numbers():
    estimate = {"value": 0.5, "low": None, "high": None}
    summary = {"n": 3, "runs": [{"bias": estimate, "at": [1, 2]}], "critic": {"bias": estimate}}
    assert list(summary_rows(summary)) == [
        ("", {"n": 3}),
        ("runs / 1", {"bias": estimate, "at": [1, 2]}),
        ("critic", {"bias": estimate}),
    ]


def test_an_installed_package_has_the_page_s_files():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"].get("analysis", [])
    carried = {path for pattern in patterns for path in (ROOT / "analysis").glob(pattern)}
    assert carried >= set((ROOT / "analysis" / "report" / "web").iterdir())


def test_the_critic_is_drawn_where_a_run_has_one(two_run_paths):
    runs = [read_run(path) for path in two_run_paths]
    assert shown_metrics(runs) == list(METRICS)
    add_metrics(two_run_paths[1], **{"critic/loss": 0.125})
    runs = [read_run(path) for path in two_run_paths]
    assert shown_metrics(runs) == [*METRICS, ("critic/loss", "critic's loss")]
    with figures.panels(1, 1) as (_, axes):
        draw_metric(axes[0], runs, ["vine", "gae"], "critic/loss", "critic's loss")
        vine, gae = axes[0].get_lines()
        assert len(vine.get_xdata()) == 0
        assert list(gae.get_xdata()) == list(range(1, 13))
        assert list(gae.get_ydata()) == [0.125] * 12


def test_the_shares_of_an_iteration_sum_to_one(run_path):
    edges, shares = time_shares(read_run(run_path))
    assert edges[:2] == [0.5, 1.5]
    assert np.allclose(sum(shares.values()), 1)
    # Of 10 s, 5 go to values and 9.75 to any named phase.
    assert np.allclose(shares["values"], 0.5)
    assert np.allclose(shares["other"], 0.025)


def test_a_run_that_logged_no_times_or_curves_still_has_a_report(run_path, tmp_path):
    (run_path / "metrics.jsonl").write_text('{"iteration": 12, "reward/mean": null}\n')
    make_page(run_path, out=tmp_path / "out")


@pytest.mark.parametrize("window", [1, 2, 3, 7, 100])
def test_the_running_mean_of_a_line_is_that_line_away_from_its_ends(window):
    values = [float(i) for i in range(50)]
    smooth = running_mean(values, window)
    reach = window // 2
    assert np.allclose(smooth[reach : 50 - reach], values[reach : 50 - reach])
    assert smooth[0] == np.mean(values[: reach + 1])
