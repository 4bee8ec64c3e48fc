"""The report's rollout viewer in a real browser, from the file system, with no network."""

import shutil
from urllib.parse import quote

import pytest
from support.browser import find_browser, open_tab
from support.report_runs import (
    HOSTILE,
    HOSTILE_ID,
    add_critic,
    add_hostile_rollout,
    add_truth,
)

from analysis.__main__ import main

pytestmark = pytest.mark.skipif(
    find_browser() is None,
    reason="no Chromium or Chrome on PATH or in BROWSER_PATH (Debian: apt install chromium)",
)

RUN = "#run=0&iteration=12&problem=sum/1"


@pytest.fixture(scope="module")
def report(built_methods, tmp_path_factory):
    """The page of a run with values, truth and a hostile response, and of one with a critic."""
    folder = tmp_path_factory.mktemp("report")
    vine, ppo = (
        shutil.copytree(built_methods / name, folder / name) for name in ("vine_1", "ppo_1")
    )
    add_hostile_rollout(vine, 5)
    add_critic(ppo, 0.625)
    add_truth(folder, vine, 11, {("sum/1", 0, 1): 15})
    add_truth(folder, vine, 12, {("sum/1", 0, 2): 50})
    assert main(["report", str(vine), str(ppo), "--out", str(folder)]) == 0
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser_tab(tmp_path_factory):
    with open_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def tab(browser_tab, report):
    """After the test the page must have been silent, and asked for nothing but itself."""
    browser_tab.requests.clear()
    browser_tab.complaints.clear()
    yield browser_tab
    assert browser_tab.complaints == []
    assert all(url.startswith("data:image/png") for url in set(browser_tab.requests) - {report})
    assert report in {url.partition("#")[0] for url in browser_tab.requests}


def texts(tab, selector):
    return tab.run(f"[...document.querySelectorAll('{selector}')].map((e) => e.textContent)")


def colours(tab, response=1):
    """Each step's background as ("blue" or "vermilion", strength)."""
    names = {"0, 114, 178": "blue", "213, 94, 0": "vermilion"}
    found = tab.run(
        f"[...document.querySelectorAll('.response:nth-of-type({response}) .step')]"
        ".map((step) => getComputedStyle(step).backgroundColor)"
    )
    parts = [colour.removeprefix("rgba(").removesuffix(")").rpartition(", ") for colour in found]
    return [(names.get(rgb), pytest.approx(float(alpha), abs=0.005)) for rgb, _, alpha in parts]


def tooltip(tab):
    """Its lines as (name, text); None where it is hidden."""
    if tab.run("document.getElementById('viewer-tooltip').hidden"):
        return None
    return list(
        zip(texts(tab, "#viewer-tooltip dt"), texts(tab, "#viewer-tooltip dd"), strict=True)
    )


def test_steps_have_the_colour_of_their_advantage_or_value(tab, report):
    tab.open(report + RUN)
    assert texts(tab, ".response:nth-of-type(1) .step") == ["1+1=2\n", "<1&2\n", "#2</s>"]
    # Advantages 0.25, −0.75, 0 and 1 on a scale of 1, at which the strength is 0.65.
    assert colours(tab) == [("blue", 0.1625), ("vermilion", 0.4875), ("blue", 0)]
    assert colours(tab, response=2)[2] == ("blue", 0.65)
    # Values 0.5, 0.75 and 0 between 0 and 1.
    tab.run("document.querySelector('input[value=value]').click()")
    assert colours(tab) == [("blue", 0), ("blue", 0.325), ("vermilion", 0.65)]
    # Of three states two have a truth, of 15/50 and of 50/50.
    tab.run("document.querySelector('input[value=truth]').click()")
    assert colours(tab)[1:] == [("vermilion", 0.26), ("blue", 0.65)]
    assert tab.run("document.querySelector('.step').className") == "step unknown"
    assert tab.run("location.hash").endswith("colour=truth")


def test_the_pointer_on_a_step_shows_its_numbers(tab, report):
    tab.open(report + RUN)
    assert tooltip(tab) is None
    tab.hover(".response:nth-of-type(2) .step:nth-child(2)")
    assert tooltip(tab) == [
        ("step", "2 of 3"),
        ("advantage", "−0.750"),
        ("V before", "0.750, after 0.000"),
        ("its 4 returns", "1 1 1 0"),
        ("truth before", "0.300 (0.187 to 0.435)"),
        ("", "15 of 50 returns are 1; interval of 95 %"),
    ]
    box, width = tab.run(
        "[document.getElementById('viewer-tooltip').getBoundingClientRect().toJSON(), innerWidth]"
    )
    assert box["left"] > 0
    assert box["right"] < width
    tab.hover("h1")
    assert tooltip(tab) is None


def test_the_keyboard_walks_from_step_to_step(tab, report):
    tab.open(report + RUN)
    tab.run("document.querySelector('.response:nth-of-type(2) .step').focus()")
    assert tooltip(tab)[0] == ("step", "1 of 3")
    tab.press("ArrowLeft")
    assert tooltip(tab)[0] == ("step", "1 of 3")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    lines = tooltip(tab)
    assert lines[0] == ("step", "3 of 3")
    assert ("V before", "0.000, after 1.000") in lines  # after the last step stands the reward
    assert lines[-1] == ("", "of the policy of iteration 12, which did not sample this")
    assert tab.run("document.activeElement.getAttribute('aria-describedby')") == "viewer-tooltip"
    tab.press("Home")
    assert tooltip(tab)[0] == ("step", "1 of 3")
    tab.press("Escape")
    assert tooltip(tab) is None


def test_a_hostile_text_is_shown_and_does_nothing(tab, report):
    tab.open(f"{report}#run=0&iteration=5&problem={quote(HOSTILE_ID)}")
    assert texts(tab, ".problem header") == [HOSTILE_ID]
    assert "".join(texts(tab, ".step")) == HOSTILE
    assert texts(tab, ".problem pre") == [HOSTILE[:50]]
    assert texts(tab, ".response header") == [
        "reward 0 · response 1 · 3 steps · cut off by the token budget"
    ]
    assert tab.run("document.title") == "Runs: vine, ppo"
    assert tab.run("document.querySelectorAll('b, img[src=x]').length") == 1  # the header's own
    # A line of 3,000 letters does not widen the page.
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
