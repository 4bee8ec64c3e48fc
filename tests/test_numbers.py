"""The numbers of the READMEs are in committed tables; `check_numbers` sees one that is not."""

from pathlib import Path

import numpy as np
import pytest

from experiments import check_numbers
from experiments.check_numbers import check, readmes

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_number_of_the_repository_is_in_a_table(readme: Path) -> None:
    assert check(readme) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An experiment of its own, with two tables and a config."""
    monkeypatch.setattr(check_numbers, "ROOT", tmp_path)
    folder = tmp_path / "experiments" / "01_one"
    folder.mkdir(parents=True)
    (folder / "summary.csv").write_text(
        "method,score,score_low,score_high,seconds\n"
        "a,0.3517,0.3384,0.3708,171.6\n"
        "b,0.3212,0.3101,0.3333,58.2\n"
    )
    (folder / "of_runs.csv").write_text(
        "run_dir,cost,score\nr1,0,0.2\nr1,10,0.4\nr2,0,0.3\nr2,10,0.6\n"
    )
    (folder / "of_seeds.csv").write_text(
        "seed,gap,gap_low,gap_high\n1,0.71,0.65,0.81\n2,,,\n3,0.73,0.67,0.83\n"
    )
    (folder / "run.sh").write_text("vineppo train --set optimization.learning_rate=6e-5\n")
    return folder


def mistakes(folder: Path, text: str) -> list[str]:
    (folder / "README.md").write_text(text)
    return check(folder / "README.md")


@pytest.mark.parametrize(
    "text",
    [
        "a has 0.35, or 0.352 (0.338–0.371), in 172 s, which is 2.9 minutes.",
        "a ends at 35 %, at a rate of 6e-5; b is **0.321** (0.310 to 0.333).",
        "Seeds 1 to 3, K = 9, top-1, SmolLM2-135M, [03](../03/), `0.777`, arXiv:2410.01679.",
        "```\nmake demo  # 0.777\n```",
        "a leads by 0.031.\n<!-- numbers\n"
        "a: summary.csv, method=a\n"
        "0.031 = {a, score} - {summary.csv, method=b, score}\n-->",
        "They end at 0.35 and 0.32.\n<!-- numbers\n0.35, 0.32 = {summary.csv, score}\n-->",
        "At 5 both have 0.38.\n<!-- numbers\n"
        "0.38 = mean(at_cost(5, {of_runs.csv, cost}, {of_runs.csv, score}))\n-->",
        "Seed 1 has 0.71 (0.65–0.81).",
        "They have 0.72.\n<!-- numbers\n0.72 = mean({of_seeds.csv, gap})\n-->",
        "It took 99 s, which is in no committed table.\n<!-- numbers\n99 s: no table\n-->",
    ],
)
def test_what_is_found(folder: Path, text: str) -> None:
    assert mistakes(folder, text) == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("One.\n\na has 0.066.", ":3: 0.066 is in no table"),
        ("a has 0.353.", ":1: 0.353 is in no table"),
        ("a is at −0.352.", ":1: −0.352 is in no table"),
        ("a took 57 s.", ":1: 57 s is in no table"),
        ("a has 39 %.", ":1: 39 % is in no table"),
        # Each of the three is somewhere, but in no row together.
        ("a has 0.352 (0.310–0.371).", ":1: 0.352 (0.310 to 0.371) is in no table's row"),
        ("Of single runs: 0.60.", ":1: 0.60 is in no table"),
        ("Of single seeds: 0.73.", ":1: 0.73 is in no table"),
        (
            "a leads by 0.041.\n<!-- numbers\n0.041 = {summary.csv, method=a, score} - 0.3212\n-->",
            ":1: 0.041 is declared as 0.0305: {summary.csv, method=a, score} - 0.3212",
        ),
        (
            "a leads.\n<!-- numbers\n0.031 = 0.031\n-->",
            ":1: 0.031 is declared but not stated",
        ),
        (
            "It took 99 s.\n<!-- numbers\n99 s: no table\n-->",
            ':1: 99 s is in no table, and no text says "no committed table"',
        ),
        ("It took 99 s.\n<!-- numbers\n99 s\n-->", ":1: '99 s' declares nothing"),
    ],
)
def test_what_is_not_found(folder: Path, text: str, mistake: str) -> None:
    assert mistake in [line.partition("README.md")[2] for line in mistakes(folder, text)]


def test_a_declaration_of_several_numbers_has_as_many_cells(folder: Path) -> None:
    text = "They have 0.35, 0.32, 0.31.\n<!-- numbers\n0.35, 0.32, 0.31 = {summary.csv, score}\n-->"
    assert "2 cells for 3 numbers" in mistakes(folder, text)[0]


def test_a_declaration_that_cannot_be_computed_says_why(folder: Path) -> None:
    text = "a has 0.9.\n<!-- numbers\n0.9 = {summary.csv, method=c, score}\n-->"
    assert "no row of summary.csv has method=c" in mistakes(folder, text)[0]


@pytest.mark.parametrize("readme", sorted(ROOT.glob("experiments/*/README.md")), ids=str)
def test_a_made_up_interval_is_caught_in_every_experiment(
    readme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = check_numbers.folder_tables(readme.parent)
    monkeypatch.setattr(check_numbers, "folder_tables", lambda _: tables)
    monkeypatch.setattr(check_numbers, "ROOT", tmp_path)
    folder = tmp_path / "experiments" / readme.parent.name
    folder.mkdir(parents=True)
    (line,) = mistakes(folder, "A made-up 0.500 (0.499–0.501) here.")
    assert line.endswith("is in no table's row")


def test_few_numbers_are_found_by_chance() -> None:
    """Of the three-digit numbers up to 1, in each experiment's tables."""
    numbers = np.arange(1, 1000) / 1000
    for readme in ROOT.glob("experiments/*/README.md"):
        cells = np.abs(check_numbers.folder_tables(readme.parent).cells)
        found = np.abs(cells[:, None] - numbers) <= 0.0005
        assert found.any(axis=0).mean() < 0.4, readme
