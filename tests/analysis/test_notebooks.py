"""The notebooks run, need neither torch nor vLLM, and are stored with what comes out of them."""

import re

import nbclient
import nbformat
import pytest
from support.grids import grid

from analysis.notebooks import REPOSITORY

FOLDER = REPOSITORY / "analysis/notebooks"
# A number of the experiment's README that a notebook shows.
QUOTED = {"compare_runs": "0.335", "value_accuracy": "0.25"}
MAX_BYTES = 2_000_000
HEAVY = "import sys; print(sorted({'torch', 'vllm', 'transformers'} & set(sys.modules)))"


def texts_of(notebook):
    """The output of the cells, but for pictures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.get("data", {}).get("text/plain", output.get("text", "")) for output in outputs]
    return [text for text in shown if "IPython.core.display.Image" not in text]


def numbers(texts):
    return [float(found) for text in texts for found in re.findall(r"-?\d+\.\d+", text)]


@pytest.mark.parametrize("name", grid("compare_runs", slow=["value_accuracy"]))
def test_a_notebook_runs_and_gives_what_is_stored(name, tmp_path, monkeypatch):
    path = FOLDER / f"{name}.ipynb"
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    assert path.stat().st_size < MAX_BYTES
    stored = nbformat.read(path, as_version=4)
    again = nbformat.read(path, as_version=4)
    again.cells.append(nbformat.v4.new_code_cell(HEAVY))
    place = {"metadata": {"path": str(REPOSITORY)}}
    nbclient.NotebookClient(again, timeout=300, kernel_name="python3", resources=place).execute()
    *texts, heavy = texts_of(again)
    assert heavy == "[]\n"
    assert numbers(texts) == pytest.approx(numbers(texts_of(stored)), abs=1e-3)
    assert any(QUOTED[path.stem] in text for text in texts)
    assert "image/png" in path.read_text()
