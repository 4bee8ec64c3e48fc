"""Every number that a README states as a result is in a committed table.

    python experiments/check_numbers.py [README...]

One line for each that is not, and exit status 1. The READMEs are those of the experiments, of the
repository and of vineppo/assets, docs/methods.md from its sweep on, docs/reliability.md from its
figures on and the last section of docs/estimators.md. The rules:

1. A number is found where a cell of a csv or json table rounds to its printed digits. 37 % and 37
   points are a cell of 0.37; min, k and M are 60 s, 1e3 and 1e6 of the cell's unit. A minus is
   the cell's; without one either sign will do, as in "behind by 0.03".
2. A value with its interval, `0.35 (0.33-0.37)` or `0.35, 0.33 to 0.37`, is found where one row
   has all three, as x, x_low, x_high (json: value, low, high or median, min, max); the negated
   difference is the same.
3. The tables are those of the README's folder and of the folders to which its block, the lines
   between two blank ones, links; dev/benchmarks.md stands for benchmarks/results. Tables of
   single runs (a column `run_dir` or `seed`) and large ones hold nearly every number by chance:
   they, and others from 440 numbers on, are read for intervals, from 5,000 on in declarations.
4. Settings are literals of configs/ and of the jsonnet, sh and py files beside the README or that
   it names. They have no interval.
5. Left alone: code, link targets, whole numbers below 20 without a unit, leading zeros (03),
   arXiv numbers, versions, the size of a model (0.8 M parameters), the 95 % of intervals, and
   numbers grown into a word (top-1, SmolLM2-135M).
6. A number that is computed from tables is declared right below its block, in a comment

       <!-- numbers
       ppo: summary.csv, method=long_ppo
       0.029 = 0.359 - {ppo, end_pass@1}
       0.33, 0.34 = {summary.csv, end_pass@1}
       0.56 (0.39 to 0.70) = {states.csv, predictor=group_mean, value}
       12 minutes: no table
       -->

   where {FILE, COLUMN=VALUE, ..., COLUMN} are the cells of the rows whose columns have those values
   (json: {FILE, KEY, KEY, ...}), FILE is relative to the README, and mean, median, std, min, max,
   sum (empty cells left out), abs, len, iqm (interquartile mean), at_cost and arithmetic make one
   number of them, or as many as there are on the left; an interval's ends are those of its columns.
   A constant alone is a point that the text chose. `ppo` is short for what follows it, here and
   below. `no table` is for what nothing committed gives (`all: no table`: nothing in the block):
   the text says so, "no committed table", in the block or above it in its section. What is declared
   must be in the block.
"""

import csv
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import trim_mean

ROOT = Path(__file__).resolve().parent.parent
# Beside the experiments' READMEs: each with the heading from which on it states results.
OTHERS: dict[str, str] = {}
MAX_NUMBERS = 440  # of a table that is searched for single numbers
MAX_NUMBERS_OF_INTERVALS = 5_000
SINGLE_RUNS = {"run_dir", "seed"}  # columns of tables that are searched for intervals alone
MIN_WHOLE = 20
NO_TABLE = "no table"
# One printed unit is so much in a cell.
SCALES = {"%": 0.01, "points": 0.01, "k": 1e3, "M": 1e6, "million": 1e6} | dict.fromkeys(
    ("min", "minutes"), 60
)
UNITS = (*SCALES, "seconds", "s", "GiB")

NUMBER = re.compile(
    r"(?<![\w.,/@])(?<!\w-)(?P<sign>[−+-]?)"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)(?:e(?P<exponent>-?\d+))?"
    rf"(?:\s?(?P<unit>{'|'.join(UNITS)}))?(?![\w@])(?!\.\d)"
)
LEFT_ALONE = re.compile(
    r"`[^`]*`"
    r"|\]\([^)]*\)"
    r"|arXiv:\S+"
    r"|<!--.*?-->"
    r"|\b(?:Python|torch|vLLM|Qwen)\s?\d+(?:\.\d+)*"
    r"|\d[\d.]* M(?:-parameter| parameters| model)"
    r"|\b95 % (?=(?:percentile )?(?:bootstrap|intervals?|bands?)\b)|\bat 95 %",
    re.DOTALL,
)
LINK = re.compile(r"\]\(([^)#\s]+)\)")
NAMED = re.compile(r"`([^`\s]+\.(?:jsonnet|libsonnet|sh|py))`|\]\(([^)#\s]+\.(?:jsonnet|sh|py))\)")
DECLARATION = re.compile(r"<!-- numbers\n(.*?)-->", re.DOTALL)
REFERENCE = re.compile(r"\{([^}]*)\}")


def at_cost(cost: float, costs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Every run's score at a cost, its evaluations joined by lines; a cost of 0 starts a run."""
    runs = np.cumsum(costs == 0)
    return np.array([np.interp(cost, costs[runs == i], scores[runs == i]) for i in np.unique(runs)])


FUNCTIONS = {
    **{name: getattr(np, f"nan{name}") for name in ("mean", "median", "min", "max", "sum")},
    "abs": np.abs,
    "std": lambda cells: np.std(cells, ddof=1),
    "len": np.size,
    "iqm": lambda cells: trim_mean(cells, 0.25),
    "at_cost": at_cost,
}


@dataclass(frozen=True)
class Number:
    """A number as printed: `0.35`, `−0.03`, `1,024`, `6e-5`, `37 %`."""

    text: str
    value: float
    half_unit: float  # of the last printed digit
    unit: str
    start: int
    end: int

    @classmethod
    def of(cls, match: re.Match[str]) -> "Number":
        digits = match["digits"].replace(",", "")
        scale = SCALES.get(match["unit"] or "", 1) * 10.0 ** int(match["exponent"] or 0)
        places = len(digits.partition(".")[2])
        return cls(
            text=" ".join(match[0].split()),
            value=float(digits) * scale * (-1 if match["sign"] in ("−", "-") else 1),
            half_unit=0.5 * 10.0**-places * scale,
            unit=match["unit"] or "",
            start=match.start(),
            end=match.end(),
        )

    @property
    def name(self) -> str:
        """By which a declaration calls it: without the sign."""
        return self.text.lstrip("−+-")

    @property
    def is_result(self) -> bool:
        digits = self.name.split(" ")[0]
        if self.unit or "." in digits:
            return True
        return not digits.startswith("0") and ("e" in digits or self.value >= MIN_WHOLE)

    def rounds(self, cells: np.ndarray) -> np.ndarray:
        """Which cells round to the printed digits."""
        if self.value >= 0:
            cells = np.abs(cells)
        return self.is_close(cells)

    def is_close(self, cells: np.ndarray) -> np.ndarray:
        return np.abs(cells - self.value) <= self.half_unit * (1 + 1e-6) + 1e-12


@dataclass(frozen=True)
class Tables:
    cells: np.ndarray
    intervals: np.ndarray  # rows of value, low, high


@cache
def read_table(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def json_numbers(node: object) -> Iterator[tuple[float, ...]]:
    """Every number, and every value with its interval."""
    if isinstance(node, dict):
        for names in (("value", "low", "high"), ("median", "min", "max")):
            interval = tuple(node.get(name) for name in names)
            if all(isinstance(one, int | float) for one in interval):
                yield interval
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from json_numbers(child)
    elif isinstance(node, int | float) and not isinstance(node, bool) and math.isfinite(node):
        yield (float(node),)


def csv_numbers(path: Path) -> Iterator[tuple[float, ...]]:
    table = read_table(path)
    numbers = table.select_dtypes("number")
    for name in numbers:
        if not SINGLE_RUNS & set(table):
            yield from ((one,) for one in numbers[name].dropna())
        interval = [name, f"{name}_low", f"{name}_high"]
        if all(one in numbers for one in interval):
            yield from numbers[interval].dropna().itertuples(index=False, name=None)


@cache
def folder_tables(folder: Path) -> Tables:
    """What is searched of the tables in a folder and below it."""
    tables = Tables(np.empty(0), np.empty((0, 3)))
    for path in sorted([*folder.rglob("*.json"), *folder.rglob("*.csv")]):
        is_json = path.suffix == ".json"
        found = list(json_numbers(json.loads(path.read_text())) if is_json else csv_numbers(path))
        cells = [one[0] for one in found if len(one) == 1]
        intervals = [one for one in found if len(one) == 3]
        if len(cells) < MAX_NUMBERS_OF_INTERVALS:
            is_searched = len(cells) < MAX_NUMBERS
            tables = joined([tables, as_tables(cells if is_searched else [], intervals)])
    return tables


def as_tables(cells: list[float], intervals: list[tuple[float, ...]]) -> Tables:
    return Tables(np.array(cells, float), np.array(intervals, float).reshape(-1, 3))


def joined(tables: list[Tables]) -> Tables:
    return Tables(
        np.concatenate([one.cells for one in tables]),
        np.concatenate([one.intervals for one in tables]),
    )


@cache
def settings_of(path: Path) -> np.ndarray:
    """Every literal of a config or a script."""
    text = re.sub(r"[_,'\"=]", " ", path.read_text())
    return np.array([abs(Number.of(match).value) for match in NUMBER.finditer(text)])


def settings_files(readme: Path, text: str) -> set[Path]:
    files = {*ROOT.glob("configs/**/*.jsonnet"), *ROOT.glob("configs/**/*.libsonnet")}
    files |= {*ROOT.glob("vineppo/config/schema/*.py"), ROOT / "vineppo/recipes/arithmetic.py"}
    if readme.parent != ROOT:
        files |= {
            path for ending in ("jsonnet", "sh", "py") for path in readme.parent.glob(f"*.{ending}")
        }
    for match in NAMED.finditer(text):
        name = match[1] or match[2]
        for base in (ROOT, readme.parent):
            if not name.startswith("/"):
                files |= {path.resolve() for path in base.glob(name)}
    return {path for path in files if path.is_file()}


def evaluate(expression: str, folder: Path, ending: str = "") -> np.ndarray:
    """A declaration's right side; of the columns with this ending where there is one."""
    found: dict[str, object] = {}

    def name_of_cells(match: re.Match[str]) -> str:
        found[f"cells_{len(found)}"] = cells_of(match[1], folder, ending)
        return f"cells_{len(found) - 1}"

    source = REFERENCE.sub(name_of_cells, expression)
    return np.array(eval(source, {"__builtins__": {}}, FUNCTIONS | found), float)


def cells_of(reference: str, folder: Path, ending: str) -> float | np.ndarray:
    file, *where, column = next(csv.reader([reference], skipinitialspace=True))
    if file.endswith(".json"):
        node = json.loads((folder / file).read_text())
        for key in [*where, column]:
            node = node[key]
        return np.array(node, float)
    table = read_table(folder / file)
    for condition in where:
        name, _, value = condition.partition("=")
        kind = float if pd.api.types.is_numeric_dtype(table[name]) else str
        table = table[table[name].astype(kind) == kind(value)]
    if table.empty:
        raise ValueError(f"no row of {file} has {', '.join(where)}")
    cells = table[column + ending].to_numpy()
    return cells[0] if len(cells) == 1 else cells


@dataclass(frozen=True)
class Block:
    """The lines between two blank ones."""

    line: int
    text: str
    says_so: bool  # that some numbers are in no committed table

    def line_of(self, position: int) -> int:
        return self.line + self.text.count("\n", 0, position)

    def numbers(self) -> list[Number]:
        visible = LEFT_ALONE.sub(lambda match: re.sub(r"[^\n]", "\0", match[0]), self.text)
        return [Number.of(match) for match in NUMBER.finditer(visible)]

    def declared(self, folder: Path, short: dict[str, str]) -> tuple[dict[str, str], list[str]]:
        """Number -> its mistake, or nothing where it is as declared; and what else is wrong."""
        stated = {number.name for number in self.numbers()}
        declared: dict[str, str] = {}
        mistakes = []
        for line in "\n".join(DECLARATION.findall(self.text)).splitlines():
            if line.endswith(f": {NO_TABLE}"):
                left, right = line.removesuffix(f": {NO_TABLE}"), None
            elif match := re.fullmatch(r"(\w+): (.+)", line):
                short[match[1]] = match[2]
                continue
            else:
                left, _, right = line.partition("=")
                for name, meant in short.items():
                    right = right.replace(f"{{{name}, ", f"{{{meant}, ")
            numbers = [Number.of(one) for one in NUMBER.finditer(left)]
            if left == "all":
                numbers = self.numbers()
            endings = ["", "_low", "_high"] if is_interval(left, numbers) else [""] * len(numbers)
            if not numbers or right == "":
                mistakes.append(f"{line!r} declares nothing")
            for i, (number, ending) in enumerate(zip(numbers, endings, strict=True)):
                if number.name not in stated:
                    mistakes.append(f"{number.text} is declared but not stated")
                mistake = self.mistake_of(number, right, folder, ending, (i, len(numbers)))
                declared[number.name] = declared.get(number.name) or mistake
        return declared, mistakes

    def mistake_of(
        self, number: Number, right: str | None, folder: Path, ending: str, place: tuple[int, int]
    ) -> str:
        """`place`: which of how many numbers of its declaration this is."""
        if right is None:
            return "" if self.says_so else 'is in no table, and no text says "no committed table"'
        try:
            values = evaluate(right, folder, ending)
            if values.ndim and len(values) != place[1]:
                raise ValueError(f"{len(values)} cells for {place[1]} numbers")
            value = float(values[place[0]] if values.ndim else values)
        except Exception as error:  # a declaration may be wrong in any way
            return f"cannot be computed: {error!r}:{right}"
        return "" if number.rounds(np.array(value)) else f"is declared as {value:.6g}:{right}"


def blocks_of(text: str) -> Iterator[Block]:
    text = re.sub(  # fenced code, its lines kept
        r"^( *)```.*?^\1```", lambda m: re.sub(r"[^\n]+", "`", m[0]), text, flags=re.M | re.S
    )
    says_so = False
    for match in re.finditer(r"(?:[^\n]*\S[^\n]*(?:\n|$))+", text):
        is_said = "no committed table" in " ".join(match[0].split())
        says_so = is_said or (says_so and not match[0].startswith("#"))
        yield Block(1 + text.count("\n", 0, match.start()), match[0], says_so)


def tables_of(block: Block, folder: Path) -> Tables:
    folders = {folder} if folder.parent.name == "experiments" else set()
    for target in LINK.findall(block.text):
        path = (folder / target).resolve()
        if path == ROOT / "docs" / "performance.md":
            path = ROOT / "benchmarks" / "results"
        path = path if path.is_dir() else path.parent
        if path.is_relative_to(ROOT / "experiments") or path == ROOT / "benchmarks" / "results":
            folders.add(path)
    return joined([as_tables([], []), *map(folder_tables, sorted(folders))])


def intervals_of(block: Block, numbers: list[Number]) -> Iterator[tuple[Number, Number, Number]]:
    for triple in zip(numbers, numbers[1:], numbers[2:], strict=False):
        if is_interval(block.text, list(triple)):
            yield triple


def is_interval(text: str, numbers: list[Number]) -> bool:
    """Whether these are a value and its interval, to equally many places."""
    if len(numbers) != 3 or numbers[0].half_unit != numbers[1].half_unit:
        return False
    value, low, high = numbers
    before = " ".join(text[value.end : low.start].replace("*", "").split())
    return before in ("(", ",") and " ".join(text[low.end : high.start].split()) in ("–", "to")


def is_in_a_row(printed: tuple[Number, ...], intervals: np.ndarray) -> bool:
    """Whether one row has value, low and high, or those of the negated difference."""
    negated = -intervals[:, [0, 2, 1]]
    for rows in (intervals, negated):
        close = [one.is_close(rows[:, i]) for i, one in enumerate(printed)]
        if np.logical_and.reduce(close).any():
            return True
    return False


def check(readme: Path) -> list[str]:
    """A line for every number of a README that is in no table."""
    text = readme.read_text()
    named = readme.relative_to(ROOT) if readme.is_relative_to(ROOT) else readme
    first = text.index(OTHERS.get(str(named), ""))
    settings = np.concatenate(
        [np.empty(0), *(settings_of(path) for path in sorted(settings_files(readme, text)))]
    )
    lines: list[str] = []
    short: dict[str, str] = {}
    for block in blocks_of(text):
        if block.line < 1 + text.count("\n", 0, first):
            continue
        numbers = block.numbers()
        declared, mistakes = block.declared(readme.parent, short)
        lines += [f"{named}:{block.line}: {mistake}" for mistake in mistakes]
        tables = tables_of(block, readme.parent)
        of_intervals: set[Number] = set()
        for triple in intervals_of(block, numbers):
            of_intervals |= set(triple)
            if any(one.name not in declared for one in triple) and not is_in_a_row(
                triple, tables.intervals
            ):
                value, low, high = triple
                place = f"{named}:{block.line_of(value.start)}"
                lines.append(
                    f"{place}: {value.text} ({low.text} to {high.text}) is in no table's row"
                )
        for number in numbers:
            place = f"{named}:{block.line_of(number.start)}"
            if number.name in declared:
                if declared[number.name]:
                    lines.append(f"{place}: {number.text} {declared[number.name]}")
            elif number not in of_intervals and number.is_result:
                is_setting = np.isclose(settings, number.value, rtol=1e-9).any()
                if not is_setting and not number.rounds(tables.cells).any():
                    lines.append(f"{place}: {number.text} is in no table")
    return lines


def readmes() -> list[Path]:
    pages = [*sorted(ROOT.glob("experiments/*/README.md")), *(ROOT / name for name in OTHERS)]
    return [page for page in pages if not (page.parent / "tables.toml").exists()]


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or readmes()
    missing = [line for readme in chosen for line in check(readme)]
    print("\n".join(missing) if missing else f"{len(chosen)} READMEs: every number is in a table")
    sys.exit(bool(missing))
