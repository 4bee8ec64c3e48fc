"""The report: one page that carries all it shows, and two kinds of lines for scripts."""

import json
import re
import shutil
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from analysis import figures
from analysis.__main__ import main
from analysis.reading import read_run
from analysis.training_curves import (
    METRICS,
    draw_metric,
    running_mean,
    shown_metrics,
    time_shares,
)
from vineppo.run_dir import RunDir


class Page(HTMLParser):
    """Collects the steps of a page as (text, hover) and every address it would load."""

    def __init__(self):
        super().__init__()
        self.steps, self.addresses, self.tags, self._is_step = [], [], set(), False

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.add(tag)
        self.addresses += [attributes[key] for key in ("src", "href") if key in attributes]
        self._is_step = attributes.get("class") == "step" and "title" in attributes
        if self._is_step:
            self.steps.append(["", attributes["title"], attributes["style"]])

    def handle_data(self, data):
        if self._is_step:
            self.steps[-1][0] += data

    def handle_endtag(self, _tag):
        self._is_step = False


def make_page(*paths, out):
    assert main(["report", *map(str, paths), "--out", str(out)]) == 0
    html = (out / "report.html").read_text()
    page = Page()
    page.feed(html)
    return html, page


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


def test_the_page_loads_nothing_and_escapes_what_it_shows(two_run_paths, tmp_path):
    html, page = make_page(*two_run_paths, out=tmp_path / "out")
    assert page.addresses
    assert all(address.startswith("data:image/svg+xml;base64,") for address in page.addresses)
    assert page.tags.isdisjoint({"script", "link", "iframe", "b"})  # a run is named "gae <b>"
    assert "gae &lt;b&gt;" in html
    assert not re.search(r"url\(|@import", html)


def test_each_step_has_its_own_text_value_and_colour(run_path, tmp_path):
    _, page = make_page(run_path, out=tmp_path / "out")
    assert len(page.steps) == 3 * 2 * 3  # problems, rollouts, steps
    texts = [text for text, _, _ in page.steps[:3]]
    assert "".join(texts) == "0+1=1\n<0&2\n#1</s>"
    assert texts[1] == "<0&2\n"
    assert page.steps[0][1].split("\n") == [
        "step 1 of 3",
        "advantage +0.250",
        "value before 0.500 (returns 0 1 0 1)",
    ]
    # The largest advantage in sight is 1, which has the full strength of 0.65; 0.75 has 0.4875.
    assert page.steps[1][2] == "background:rgba(213,94,0,0.488)"
    assert page.steps[5][2] == "background:rgba(0,114,178,0.650)"


def test_without_a_tokenizer_the_texts_are_whole(run_path, tmp_path):
    shutil.rmtree(run_path / "final")
    html, page = make_page(run_path, out=tmp_path / "out")
    assert page.steps == []
    assert "0+1=1\n<0&2\n#1" in unescape(html)


def test_a_run_without_tables_still_has_a_report(run_path, tmp_path):
    shutil.rmtree(run_path / "rollouts")
    html, _ = make_page(run_path, out=tmp_path / "out")
    assert "No rollouts were saved." in html


def test_a_group_method_without_values_beside_a_critic_run(two_run_paths, tmp_path, capsys):
    group, critic = two_run_paths
    shutil.rmtree(group / "values")
    run_dir = RunDir(critic)
    rows = run_dir.read_values(12)
    run_dir.write_values(12, [row | {"returns_K": [], "critic_value": 0.625} for row in rows])
    add_metrics(critic, **{"critic/explained_variance": 0.5, "critic/loss": 0.125})
    html, page = make_page(group, critic, out=tmp_path / "out")
    hovers = [hover.split("\n") for _, hover, _ in page.steps]
    assert hovers[0] == ["step 1 of 3", "advantage +0.250"]
    assert hovers[18] == ["step 1 of 3", "advantage +0.250", "critic's value 0.625"]
    assert "critic's explained variance, critic's loss by iteration" in unescape(html)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "RUN",
        "RUN",
        "REPORT",
    ]


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


def test_half_a_table_is_one_clear_line(run_path, capsys):
    path = run_path / "rollouts" / "iter_000012.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert main(["report", str(run_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path} is no complete parquet file: ")
    assert error.count("\n") == 1


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
