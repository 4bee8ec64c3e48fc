"""The notebooks run anywhere on the committed runs, show what they say, and are stored clean."""

import csv
import json

import nbclient
import nbformat
import numpy as np
import pytest

from analysis.notebooks import REPOSITORY
from analysis.notebooks.__main__ import FOLDER, stored_form
from analysis.truth import read_truth

NOTEBOOKS = {
    path.stem: nbformat.read(path, as_version=4) for path in sorted(FOLDER.glob("*.ipynb"))
}
RUNS = REPOSITORY / "tests" / "data" / "runs"
TIMEOUT_S = 120
PNG_MAGIC = "iVBORw0KGgo"  # in base64
# The cells that end in a table, with a column that it must have, and those that show figures.
TABLES = {
    "kl_efficiency": {
        "load": "kl_source", "points": "kl_per_token", "matched": "gain_per_nat",
        "further": "pass@1",
    },
    "temperature": {"load": "seeds", "results": "as_trained", "transfer": "", "further": ""},
    "value_accuracy": {"load": "predictors", "scores": "mae_floor", "further": "mae_floor"},
    "wall_clock": {"load": "seeds", "budgets": "improvement", "further": "demo_ppo"},
}  # fmt: skip
FIGURES = {
    "kl_efficiency": {"curves": 1, "logged": 1},
    "temperature": {"figure": 1},
    "value_accuracy": {"overview": 1, "health": 1, "reliability": 2, "strata": 1},
    "wall_clock": {"curves": 1, "phases": 1, "target": 1},
}
# Numbers of a notebook by what they are of, for a cell that the test adds.
PROBES = {
    "kl_efficiency": """{
        f"{row.method} {row.seed} {row.iteration}": row.kl_per_token
        for row in points.itertuples()
    }""",
    "temperature": """{
        f"{row.algorithm} {row.temperature} {row.evaluation_temperature}": row.num_seeds
        for row in both.itertuples()
    }""",
    "value_accuracy": """{
        " ".join(map(str, key)): mae
        for key, mae in wide(scores, "mae")["mae"].items() if key[2] in ("mc_1", "mc_3", "mc_9")
    }""",
    "wall_clock": """dict(phases["update"])""",
}
PROBE = """import json, sys
print(json.dumps([{}, sorted({{"torch", "vllm", "transformers"}} & set(sys.modules))]))
"""


@pytest.fixture(scope="module", autouse=True)
def environment_of_kernels(tmp_path_factory):
    """The package as the tests see it, and a home of its own for what IPython and Jupyter write."""
    home = str(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, home)
        yield


def execute(notebook, folder):
    """The notebook with its outputs, executed in `folder`; a cell that fails raises."""
    place = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=place
    )
    return client.execute()


def with_probe(name):
    notebook = nbformat.from_dict(NOTEBOOKS[name])
    probe = nbformat.v4.new_code_cell(PROBE.format(PROBES[name]), id="probe")
    cells = [*notebook.cells, probe]
    return nbformat.from_dict({**notebook, "cells": cells})


def by_name(name):
    """That of value accuracy scores 160 states again."""
    return pytest.param(name, marks=pytest.mark.slow if name == "value_accuracy" else ())


@pytest.fixture(scope="module", params=map(by_name, sorted(NOTEBOOKS)))
def executed(request, tmp_path_factory):
    """A notebook's name, and what comes out of it outside of the repository, its probe last."""
    folder = tmp_path_factory.mktemp("elsewhere")
    notebook = execute(with_probe(request.param), folder)
    assert list(folder.iterdir()) == []
    return request.param, notebook


def code_cells(notebook):
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


def outputs(cell, kind):
    return [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]


def probed(notebook):
    """What the added cell printed: its numbers, and which heavy modules are loaded."""
    return json.loads(notebook.cells[-1].outputs[-1].text)


def test_there_are_the_four():
    assert set(NOTEBOOKS) == set(TABLES) == {p.stem for p in FOLDER.glob("*.ipynb")}


def test_tables_and_figures_come_out(executed):
    name, cells = executed[0], code_cells(executed[1])
    for cell_id, column in TABLES[name].items():
        (table,) = outputs(cells[cell_id], "text/html")
        assert table.count("<tr") > 1, f"{name}, {cell_id}: an empty table"
        assert column in table
    pictures = {cell_id: outputs(cell, "image/png") for cell_id, cell in cells.items()}
    assert {cell_id: len(pngs) for cell_id, pngs in pictures.items() if pngs} == FIGURES[name]
    for pngs in pictures.values():
        assert all(png.startswith(PNG_MAGIC) and len(png) > 10_000 for png in pngs)


def test_nothing_is_warned_of_and_nothing_heavy_imported(executed):
    name, notebook = executed
    streams = {
        cell_id: output.text
        for cell_id, cell in code_cells(notebook).items()
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    }
    assert streams == {}, name
    assert probed(notebook)[1] == [], f"{name} must be readable without a machine that samples"


def test_the_numbers_are_those_of_the_files(executed):
    name, notebook = executed
    expected = EXPECTED[name]()
    assert expected
    assert probed(notebook)[0] == pytest.approx(expected)


def kl_of_checkpoints():
    return {
        f"{row['method']} {row['seed']} {row['iteration']}": float(row["kl_per_token"])
        for row in csv_rows("kl_efficiency/kl_efficiency.csv")
    }


def seeds_by_both_temperatures():
    """Of the last policies; a run evaluates them at its own setting and the sweep at others."""
    rows = csv_rows("temperature/temperature_evaluations.csv")
    last = max(int(row["iteration"]) for row in rows)
    seeds = {}
    for row in rows:
        if int(row["iteration"]) == last:
            keys = (row["algorithm"], row["temperature"], row["evaluation_temperature"])
            seeds.setdefault(" ".join(keys), set()).add(row["seed"])
    return {key: len(numbers) for key, numbers in seeds.items()}


def absolute_errors_of_fresh_draws():
    """mean |v − c/m| over the step boundaries of all seeds, v the mean of the first K draws."""
    states = {}
    for path in RUNS.glob("*/analysis/ground-truth/ground_truth/*/iter_*.parquet"):
        config = json.loads((path.parents[4] / "config.json").read_text())
        for state in read_truth(path):
            if state.prefix_length > 0:
                states.setdefault(f"{config['name']} {state.checkpoint}", []).append(state)
    return {
        f"{key} mc_{k}": np.mean(
            [
                abs(np.mean(state.draws_D[:k]) - state.num_correct / state.num_samples)
                for state in group
            ]
        )
        for key, group in states.items()
        for k in (1, 3, 9)
    }


def seconds_of_updates():
    by_method = {}
    for path in RUNS.glob("*/config.json"):
        lines = (path.parent / "metrics.jsonl").read_text().splitlines()
        seconds = [json.loads(line)["time/update_s"] for line in lines]
        by_method.setdefault(json.loads(path.read_text())["name"], []).append(np.mean(seconds))
    return {name: np.mean(means) for name, means in by_method.items()}


def csv_rows(name):
    with (RUNS / name).open() as file:
        return list(csv.DictReader(file))


EXPECTED = {
    "kl_efficiency": kl_of_checkpoints,
    "temperature": seeds_by_both_temperatures,
    "value_accuracy": absolute_errors_of_fresh_draws,
    "wall_clock": seconds_of_updates,
}


def test_the_parameters_take_the_readers_own_runs(tmp_path):
    """One run, at an absolute path: one method, one seed, no baseline but itself."""
    notebook = nbformat.from_dict(NOTEBOOKS["wall_clock"])
    (parameters,) = [cell for cell in notebook.cells if cell.id == "parameters"]
    parameters.source = f"RUNS = [{str(RUNS / 'demo_ppo_seed1')!r}]\nTARGET = 0.6"
    cells = code_cells(execute(notebook, tmp_path))
    (table,) = outputs(cells["further"], "text/html")
    assert "demo_ppo" in table
    assert "demo_vineppo" not in table


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_what_is_stored_is_valid_and_clean(name):
    content = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    nbformat.validate(NOTEBOOKS[name])
    assert content == stored_form(content), "python -m analysis.notebooks mends it"
    for cell in code_cells(NOTEBOOKS[name]).values():
        assert cell.outputs == []
        assert cell.execution_count is None


def test_what_an_editor_leaves_is_taken_out(executed):
    """Executed, with an editor's notes, a notebook comes back to the stored text."""
    name, notebook = executed
    saved = nbformat.from_dict({**notebook, "cells": notebook.cells[:-1]})
    saved.cells[0].metadata["collapsed"] = True
    saved.metadata["language_info"]["version"] = "3.11.7"
    stored = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert nbformat.writes(saved) != stored
    assert stored_form(nbformat.writes(saved)) == stored


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_a_question_comes_first_and_then_the_parameters(name):
    first, second = NOTEBOOKS[name].cells[:2]
    assert first.cell_type == "markdown"
    assert first.source.splitlines()[0].startswith("# ")
    assert first.source.splitlines()[0].endswith("?")
    assert second.id == "parameters"
    assert "tests/data/runs/" in second.source
    assert str(REPOSITORY) not in second.source
