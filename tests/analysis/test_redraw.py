"""The commands in the experiments' READMEs draw their figures again as they are committed."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import matplotlib as mpl
import pytest
from support.grids import grid

from analysis import value_figures
from analysis.__main__ import main
from analysis.notebooks import REPOSITORY
from analysis.value_accuracy import SCORES, STEM
from analysis.value_states import read_table

OPTIONS = r"((?: --[a-z]+ (?:\"[^\"]*\"|[^\s\"]+))*)"
COMMAND = re.compile(r"`python -m analysis (\S+) (experiments/\S+)" + OPTIONS + r" --out \2`")
COMMANDS = {
    command
    for path in REPOSITORY.glob("experiments/*/README.md")
    for command in COMMAND.findall(path.read_text())
} | {
    ("learning-curves", f"experiments/{two}", "")
    for two in ("02_baselines/demo", "07_wall_clock/demo")
}
# Scoring 03 again takes minutes; what it draws is drawn below.
DRAWN = sorted(COMMANDS - {("value-accuracy", "experiments/03_value_accuracy", "")})
NAMES = sorted({name for name, _, _ in DRAWN} - {"value-accuracy"})
QUICK = [min(one for one in DRAWN if one[0] == name) for name in NAMES]
# Figure -> the script that draws it, and what its `main` is given.
SCRIPTS = {
    "front_page": ("front_page.py",),
    "03_value_accuracy/position": ("03_value_accuracy/position.py",),
    "10_interval_coverage/coverage": ("10_interval_coverage/figure.py",),
    "11_credit/decisive": ("11_credit/decisive.py", []),
    "13_gradient_noise/frontier": ("13_gradient_noise/frontier.py",),
    "14_bias/bias": ("14_bias/figure.py",),
    "16_by_the_clock/fair/curves": ("16_by_the_clock/fair.py",),
    "18_critics/critics": ("18_critics/figure.py",),
    "19_noise/frontier": ("13_gradient_noise/frontier.py",),
    **{
        f"19_{name}/scatter": ("19_real_model/scatter.py",)
        for name in ("real_model", "critics", "math")
    },
}
# Folders that a script of another folder reads.
SHARED = {
    "13_gradient_noise",
    "19_noise",
    "19_real_model",
    "19_critics",
    "19_math",
    "21_example_report",
}


def numbers(path: Path) -> list[float]:
    return [float(digits) for digits in re.findall(r"(?<![\w#.])-?\d+\.\d+", path.read_text())]


def check_same(drawn: Path, committed: Path) -> None:
    """Figures bit by bit, if this matplotlib drew them; else the numbers, as far as they round."""
    if drawn.suffix == ".png":
        is_same = f"Matplotlib version{mpl.__version__}".encode() in committed.read_bytes()
        assert not is_same or drawn.read_bytes() == committed.read_bytes(), committed
    else:
        assert numbers(drawn) == pytest.approx(numbers(committed), abs=1e-3), committed


def test_the_readmes_name_the_commands():
    assert len(COMMANDS) >= 10
    drawn = {folder for _, folder, _ in COMMANDS}
    figures = REPOSITORY.glob("experiments/**/*.png")
    others = {str(path.parent.relative_to(REPOSITORY)) for path in figures} - drawn
    by_scripts = {str(Path("experiments", figure).parent) for figure in SCRIPTS}  # drawn below
    assert others == by_scripts - drawn


@pytest.mark.parametrize(
    ("name", "folder", "options"),
    grid(*QUICK, slow=[one for one in DRAWN if one not in QUICK]),
)
def test_the_committed_files_are_what_the_command_makes(name, folder, options, tmp_path):
    committed = REPOSITORY / folder
    assert main([name, str(committed), *shlex.split(options), "--out", str(tmp_path)]) == 0
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn >= {path.name for path in committed.glob("*.png")}
    for path in tmp_path.iterdir():
        if path.suffix in {".png", ".csv"} and (committed / path.name).exists():
            check_same(path, committed / path.name)


@pytest.mark.parametrize("figure", SCRIPTS)
def test_a_script_draws_its_figure_from_its_tables(figure, tmp_path):
    script, *given = SCRIPTS[figure]
    for folder in SHARED | {Path(script).parts[0]} - {script}:
        source, ignored = REPOSITORY / "experiments" / folder, shutil.ignore_patterns("*.png")
        shutil.copytree(source, tmp_path / folder, ignore=ignored)
    shutil.copy(REPOSITORY / "experiments" / script, tmp_path / script)
    runpy.run_path(str(tmp_path / script))["main"](*given)
    check_same(tmp_path / f"{figure}.png", REPOSITORY / "experiments" / f"{figure}.png")


@pytest.mark.slow
def test_the_figures_of_value_accuracy_are_those_of_its_tables(tmp_path):
    folder = REPOSITORY / "experiments" / "03_value_accuracy"
    scores = SCORES.read(folder)
    for path in (
        *value_figures.draw_overview(scores, tmp_path / STEM),
        *value_figures.draw_scatter(read_table(folder), tmp_path / f"{STEM}_scatter"),
    ):
        if (folder / path.name).exists():
            check_same(path, folder / path.name)
