"""The report: one page that carries all it shows, and two kinds of lines for scripts."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.report_runs import (
    HOSTILE,
    HOSTILE_ID,
    HOSTILE_NAME,
    add_critic,
    add_hostile_rollout,
    give_hostile_name,
    steps_of,
    the_error,
)

from analysis.__main__ import main
from analysis.report.page import script_json
from vineppo.run_dir import RunDir


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
    assert all(address.startswith("data:image/png;base64,") for address in outside)
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


def test_a_name_and_a_folder_are_text_wherever_they_stand(two_run_paths, tmp_path):
    path = shutil.copytree(two_run_paths[0], tmp_path / "<b>'\"")
    give_hostile_name(path)
    html, page = make_page(path, two_run_paths[1], out=tmp_path / "out")
    assert page.handlers == []
    assert page.tags.isdisjoint({"b", "link", "iframe", "object"})
    assert len(page.scripts) == 2
    assert "onerror" in html
    assert page.data["runs"][0]["name"] == HOSTILE_NAME


@given(st.text())
def test_no_text_leaves_the_script_element_that_carries_it(text):
    written = script_json({"text": text})
    assert "<" not in written
    assert json.loads(written) == {"text": text}


def test_a_group_method_without_values_beside_a_critic_run(two_run_paths, tmp_path, capsys):
    group, critic = two_run_paths
    shutil.rmtree(group / "values")
    add_critic(critic, 0.625)
    add_metrics(critic, **{"critic/explained_variance": 0.5, "critic/loss": 0.125})
    html, page = make_page(group, critic, out=tmp_path / "out")
    of_group, of_critic = (steps_of(run["tables"][-1]) for run in page.data["runs"])
    assert of_group["sum/0", 0, 0] == {"text": "0+1=1\n", "advantage": 0.25}
    assert of_critic["sum/0", 0, 0] == {"text": "0+1=1\n", "advantage": 0.25, "critic": 0.625}
    assert "<h2>Critic health</h2>" in html
    assert 'alt="explained variance, loss by iteration"' in html
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "RUN",
        "RUN",
        "REPORT",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--iterations", "3"], "has no rollouts of iteration 3 (only of 12)"),
        (
            ["--iterations", "some"],
            "--iterations must be all, last, ends, spaced:N or numbers with commas",
        ),
        (["--problems", "0"], "--problems must be at least 1, got 0"),
    ],
)
def test_options_that_cannot_be_are_one_line(run_path, options, message, capsys):
    assert message in the_error(capsys, run_path, *options)


def test_runs_of_different_tasks_are_not_drawn_on_one_axis(two_run_paths, tmp_path, capsys):
    for path, modulus in zip(two_run_paths, (10, 7), strict=True):
        config = json.loads((path / "config.json").read_text())
        config["task"] = {"kind": "arithmetic", "modulus": modulus}
        (path / "config.json").write_text(json.dumps(config))
    out = tmp_path / "out"
    assert main(["report", *map(str, two_run_paths), f"--out={out}"]) == 2
    error = capsys.readouterr().err
    assert "are tested on different problems: task.modulus is 10 in the one and 7" in error
    assert not out.exists()
