"""Writes the tables and numbers of the pages from committed files: `make pages`.

The pages of a folder share its `tables.toml`:

    settings = "256 1e-4"                       # numbers of prose that need no table
    [sources.ends]                              # one row of a csv file, or a json file
    file = "summary.csv"
    where.method = "{run}"                      # from the page's row; `mean = true` takes several
    [tables.ends]
    rows = [{ method = "PPO", run = "demo_ppo" }]     # or a file, whose rows are {row.COLUMN}
    columns.method = "{method}"
    columns."pass@1" = "{ends.end_pass@1:ci.3f}"      # a row's own key of this name goes first
    [numbers]
    ppo = ["{ends.end_pass@1:.2f}", { run = "demo_ppo" }]

In a page the lines between `<!-- table: ends -->` and `<!-- end -->` are that table; a number
stands as `<!--ppo-->0.85<!--/-->`. Formats are Python's; `ci` before one adds the interval in
..._low and ..._high, and `/60` or `*100` after one scales.
"""

import json
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
NAMES = "README.md docs/*.md benchmarks/README.md experiments/**/README.md"
PAGES = [page for name in NAMES.split() for page in sorted(ROOT.glob(name))]
TABLE = re.compile(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"<!--(\w+)-->(.*?)<!--/-->", re.DOTALL)
SPEC = re.compile(r"(?P<ci>ci)?(?P<format>[^/*]*)(?:(?P<scale>[/*])(?P<by>[-\d.e]+))?")
# Any number may stand here: code, targets of links, comments, the lines of the setting.
FREE = r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->|arXiv:\S+|https?://\S+|^\*Setting.*?(?:\n\n|\Z)"
DIGITS = re.compile(r"(?<![\w.,/@:])(?<!\w-)\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?: %)?(?![\w@])")
INTERVAL = re.compile(r"\d\S* \([−+\d.,]+(?:–| to )[−+\d.,]+\)")


@cache
def read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.suffix == ".json" else pd.read_csv(path)


def spec_of(page: Path) -> dict[str, Any]:
    path = page.parent / "tables.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def rows_where(table: pd.DataFrame, where: dict[str, list[str]]) -> pd.DataFrame:
    """The rows with one of these values in each column."""
    for column, values in where.items():
        is_number = pd.api.types.is_numeric_dtype(table[column])
        table = table[table[column].isin([float(v) if is_number else v for v in values])]
    return table


@dataclass
class Cell:
    """A value of a table or json; `cell.name` is the one below it, `cell:ci.3f` its print."""

    node: Any
    name: str = ""

    def __getattr__(self, name: str) -> "Cell":
        return Cell(self.node[self.name] if self.name else self.node, name)

    def __format__(self, spec: str) -> str:
        cells, parts = [self.node[self.name]], SPEC.fullmatch(spec)
        if isinstance(cells[0], str) or parts is None:
            return str(cells[0])
        if isinstance(cells[0], dict):
            cells = [cells[0][name] for name in ("value", "low", "high")]
        elif parts["ci"]:
            cells += [self.node[f"{self.name}_{end}"] for end in ("low", "high")]
        if pd.isna(cells).any():
            return "–"
        by = float(parts["by"] or 1) ** (-1 if parts["scale"] == "/" else 1)
        texts = [format(cell * by, parts["format"]) for cell in cells]
        value, *ends = (re.sub(r"^[-+](?=[0.%]*$)", "", text) for text in texts)
        ends = [one.strip("+") for one in (ends[::-1] if by < 0 else ends)]
        between = " to " if ends and ends[0].startswith("-") else "–"
        text = f"{value} ({between.join(ends)})" if ends else value
        return text.replace("-", "−").replace("%", " %")


class Source:
    """The row of a file that `where` chooses, filled in from a row of the page's table."""

    def __init__(self, folder: Path, spec: dict[str, Any], row: dict[str, str]) -> None:
        self.folder, self.spec, self.row = folder, spec, row

    def __getattr__(self, name: str) -> Cell:
        table = read(self.folder / self.spec["file"].format(**self.row))
        if isinstance(table, pd.DataFrame):
            where = self.spec.get("where", {}).items()
            table = rows_where(table, {c: [value.format(**self.row)] for c, value in where})
            if len(table) != 1 and "mean" not in self.spec:
                raise ValueError(f"{len(table)} rows of {self.spec} are meant by {self.row}")
            table = table.mean(numeric_only=True) if "mean" in self.spec else table.iloc[0]
        return Cell(table, name)


def table_of(folder: Path, spec: dict[str, Any], name: str) -> str:
    table = spec["tables"][name]
    columns, rows = table["columns"], table["rows"]
    if isinstance(rows, str):
        frame = rows_where(read(folder / rows), table.get("where", {}))
        rows = [{"row": Cell(row)} for _, row in frame.iterrows()]
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[filled(folder, spec, row.get(c, columns[c]), row) for c in columns] for row in rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"<!-- table: {name} -->\n{text}\n<!-- end -->"


def filled(folder: Path, spec: dict[str, Any], text: str, row: dict[str, Any]) -> str:
    sources = {name: Source(folder, one, row) for name, one in spec.get("sources", {}).items()}
    return text.format(**sources | row)


def written(page: Path) -> str:
    """The page's text, its tables and numbers as the files have them."""
    spec = spec_of(page)

    def number(match: re.Match[str]) -> str:
        return f"<!--{match[1]}-->{filled(page.parent, spec, *spec['numbers'][match[1]])}<!--/-->"

    text = TABLE.sub(lambda match: table_of(page.parent, spec, match[1]), page.read_text())
    return NUMBER.sub(number, text)


def without_table(page: Path) -> list[str]:
    """Intervals, decimals, percentages and numbers over 100 that stand in none of its tables."""
    text = page.read_text()
    known = " ".join(match[2] for one in (TABLE, NUMBER) for match in one.finditer(text))
    numbers = {*DIGITS.findall(known), *spec_of(page).get("settings", "").split(), "95 %"}
    prose = re.sub(FREE, " ", NUMBER.sub(" ", TABLE.sub(" ", text)), flags=re.DOTALL | re.MULTILINE)
    found = [one for one in DIGITS.findall(prose) if one not in numbers]
    found = [one for one in found if set(".,e%") & set(one) or int(one) > 100]
    return [one for one in INTERVAL.findall(prose) if one not in known] + found


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page))
        for number in without_table(page) if spec_of(page) else []:
            print(f"{page}: {number} stands in no table of the page")
