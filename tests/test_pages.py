"""The pages' tables and numbers are those of the committed files; a false digit is found."""

from pathlib import Path

import pytest

from docs.pages import PAGES, ROOT, read, spec_of, without_table, written

TABLES = """
settings = "1,024"
[sources.ends]
file = "ends.csv"
where.run = "{run}"
[tables.ends]
rows = [{ method = "VinePPO", run = "vine" }, { method = "PPO", run = "ppo", time = "" }]
columns.method = "{method}"
columns."pass@1" = "{ends.score:ci.3f}"
columns.time = "{ends.time_s:.1f/60} min"
[tables.all]
rows = "ends.csv"
where.run = ["ppo"]
columns.run = "{row.run}"
columns.tokens = "{row.tokens:,.0f}"
[numbers]
lead = ["{ends.lead:ci+.2f}", { run = "vine" }]
"""
ENDS = """run,score,score_low,score_high,time_s,tokens,lead,lead_low,lead_high
vine,0.8612,0.8321,0.8876,171.6,670056,-0.0127,-0.05,0.0234
ppo,0.8486,0.8174,0.8779,166.2,167715,,,
"""
PAGE = """# VinePPO ends at 0.861

It leads by <!--lead-->−0.01 (−0.05 to 0.02)<!--/--> with 95 % intervals over 1,024 samples, ending
at 0.861 (0.832–0.888). See [03](../0.5/), `0.777`, arXiv:2410.01679.

*Setting.* 0.55 M parameters.

<!-- table: ends -->
| method | pass@1 | time |
| --- | --- | --- |
| VinePPO | 0.861 (0.832–0.888) | 2.9 min |
| PPO | 0.849 (0.817–0.878) |  |
<!-- end -->

<!-- table: all -->
| run | tokens |
| --- | --- |
| ppo | 167,715 |
<!-- end -->
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_as_their_files_have_them(page: Path) -> None:
    assert page.read_text() == written(page)
    if spec_of(page):
        assert without_table(page) == []


def test_the_page_of_experiments_has_every_folder() -> None:
    rows = [
        line for line in (ROOT / "experiments/README.md").read_text().splitlines() if "](" in line
    ]
    folders = {page.parent.name for page in ROOT.glob("experiments/*/README.md")}
    assert folders == {line.split("[")[1].split("]")[0] for line in rows if line.startswith("| [")}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    read.cache_clear()
    (tmp_path / "tables.toml").write_text(TABLES)
    (tmp_path / "ends.csv").write_text(ENDS)
    (tmp_path / "README.md").write_text(PAGE)
    return tmp_path / "README.md"


def test_a_true_page_stays(page: Path) -> None:
    assert written(page) == PAGE
    assert without_table(page) == []


@pytest.mark.parametrize("place", ["0.849 (0", "167,715", "−0.01", "0.02)"])
def test_a_changed_digit_in_table_or_number_is_found(page: Path, place: str) -> None:
    page.write_text(
        PAGE.replace(place, place.replace("1", "3").replace("2", "4").replace("9", "5"))
    )
    assert page.read_text() != written(page) == PAGE


@pytest.mark.parametrize("cell", ["0.8486", "171.6", "0.0234"])
def test_a_changed_cell_is_found(page: Path, cell: str) -> None:
    (page.parent / "ends.csv").write_text(ENDS.replace(cell, cell[:-2] + "99"))
    assert written(page) != PAGE


@pytest.mark.parametrize("false", ["0.862", "0.861 (0.831–0.888)", "37 %", "1,025", "101"])
def test_a_number_of_prose_without_a_table_is_found(page: Path, false: str) -> None:
    page.write_text(PAGE.replace("It leads", f"It ends at {false}. It leads"))
    assert without_table(page)[0] in false
