"""The notebooks run anywhere, and what is stored with them is what comes out of them."""

import base64
import io
import json

import nbformat
import numpy as np
import pytest
from PIL import Image
from support.grids import grid

from analysis.notebooks import REPOSITORY
from analysis.notebooks.__main__ import FOLDER, executed, stored_form

CONTENTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.ipynb"))}
# A cell that shows a number of the experiment's README, and that number.
QUOTED = {
    "kl_efficiency": ("matched", "0.335"),
    "temperature": ("results", "0.873"),
    "value_accuracy": ("scores", "0.251"),
    "wall_clock": ("budgets", "0.324"),
}
PICTURES = {"kl_efficiency": 1, "temperature": 1, "value_accuracy": 6, "wall_clock": 4}
MAX_BYTES = 1_000_000
HEAVY = "import sys; print(sorted({'torch', 'vllm', 'transformers'} & set(sys.modules)))"
PNG = "image/png"


@pytest.fixture(scope="module", autouse=True)
def environment_of_kernels(tmp_path_factory):
    """The package as the tests see it, and a home of its own for what IPython and Jupyter write."""
    home = str(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, home)
        yield


def cells_of(content):
    return json.loads(content)["cells"]


def outputs(content):
    """By cell, what it shows: its texts, and its pictures apart."""
    texts, pictures = {}, {}
    for cell in cells_of(content):
        for output in cell.get("outputs", []):
            data = dict(output.get("data", {}))
            if PNG in data:
                pictures.setdefault(cell["id"], []).append(data.pop(PNG))
            texts.setdefault(cell["id"], []).append(output | {"data": data})
    return texts, pictures


def grey(picture, size=(200, 100)):
    """The picture in small, from 0 to 1."""
    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    return np.asarray(image.convert("L").resize(size)) / 255


@pytest.mark.parametrize(
    "name", grid("kl_efficiency", slow=sorted(CONTENTS.keys() - {"kl_efficiency"}))
)
def test_what_is_stored_is_what_comes_out(name, tmp_path):
    """Texts to the letter; pictures nearly, which another version of matplotlib draws otherwise."""
    notebook = nbformat.reads(CONTENTS[name], as_version=4)
    probe = nbformat.v4.new_code_cell(HEAVY, id="probe")
    notebook.cells.append(probe)
    content = stored_form(executed(nbformat.writes(notebook), tmp_path))
    assert list(tmp_path.iterdir()) == []
    texts, pictures = outputs(content)
    (loaded,) = texts.pop("probe")
    assert "".join(loaded["text"]) == "[]\n", "must be readable without a machine that samples"
    stored_texts, stored_pictures = outputs(CONTENTS[name])
    assert texts == stored_texts, "python -m analysis.notebooks stores them"
    assert pictures.keys() == stored_pictures.keys()
    for cell, pngs in pictures.items():
        for png, stored in zip(pngs, stored_pictures[cell], strict=True):
            assert np.abs(grey(png) - grey(stored)).mean() < 0.02, cell


@pytest.mark.parametrize("name", sorted(CONTENTS))
def test_what_is_stored_is_small_and_clean_and_shows_what_the_readme_says(name):
    content = CONTENTS[name]
    nbformat.validate(nbformat.reads(content, as_version=4))
    assert content == stored_form(content), "python -m analysis.notebooks --strip mends it"
    assert len(content.encode()) < MAX_BYTES
    assert str(REPOSITORY) not in content
    texts, pictures = outputs(content)
    assert sum(map(len, pictures.values())) == PICTURES[name]
    assert {output["output_type"] for shown in texts.values() for output in shown} <= {
        "display_data", "execute_result",
    }  # fmt: skip
    cell, number = QUOTED[name]
    assert number in "".join(texts[cell][0]["data"]["text/html"])


def test_there_are_the_four():
    assert set(CONTENTS) == set(QUOTED)


def test_what_an_editor_leaves_is_taken_out():
    """Executed again, with an editor's notes, a notebook comes back to the stored text."""
    saved = nbformat.reads(CONTENTS["wall_clock"], as_version=4)
    saved.cells[0].metadata["collapsed"] = True
    saved.metadata["language_info"]["version"] = "3.11.7"
    for number, cell in enumerate(cell for cell in saved.cells if cell.cell_type == "code"):
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    assert stored_form(nbformat.writes(saved)) == CONTENTS["wall_clock"]


def test_the_parameters_take_the_readers_own_runs(run_path, tmp_path):
    """One run, at an absolute path: one method, one seed, no baseline but itself."""
    notebook = nbformat.reads(CONTENTS["wall_clock"], as_version=4)
    (parameters,) = [cell for cell in notebook.cells if cell.id == "parameters"]
    parameters.source = f"RUNS = [{str(run_path)!r}]\nTARGET = 0.4"
    texts, _ = outputs(executed(nbformat.writes(notebook), tmp_path))
    table = "".join(texts["further"][0]["data"]["text/html"])
    assert "vine" in table
    assert "long_ppo" not in table


@pytest.mark.parametrize("name", sorted(CONTENTS))
def test_a_question_comes_first_and_then_the_parameters(name):
    first, second = cells_of(CONTENTS[name])[:2]
    assert first["cell_type"] == "markdown"
    assert first["source"][0].startswith("# ")
    assert first["source"][0].endswith("?\n")
    assert second["id"] == "parameters"
    assert '"experiments/' in "".join(second["source"])
