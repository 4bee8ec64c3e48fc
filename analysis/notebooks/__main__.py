"""`python -m analysis.notebooks`: executes the notebooks of this folder and stores what comes out.

Without what differs from one execution to the next, or from one editor to the other, so that a
difference in git is one of the text or of a result. Cells keep their ids.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from analysis.notebooks import REPOSITORY
from vineppo.run_dir.files import write_atomic

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
NBFORMAT = {"nbformat": 4, "nbformat_minor": 5}
TIMEOUT_S = 300  # of a cell


def executed(content: str, folder: Path = REPOSITORY) -> str:
    """A notebook with its outputs, executed in `folder`; a cell that fails raises."""
    import nbclient
    import nbformat

    notebook = nbformat.reads(content, as_version=4)
    place = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=place
    )
    return nbformat.writes(client.execute())


def stored_form(content: str) -> str:
    """A notebook as it is to be stored: JSON as `nbformat` writes it."""
    cells = map(_stored_cell, json.loads(content)["cells"])
    notebook = {"cells": list(cells), "metadata": METADATA, **NBFORMAT}
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _stored_cell(cell: dict[str, Any]) -> dict[str, Any]:
    source = "".join(cell["source"]).strip("\n")
    kept = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": {}}
    if cell["cell_type"] == "code":
        kept |= {"execution_count": None, "outputs": list(map(_stored_output, cell["outputs"]))}
    return kept | {"source": source.splitlines(keepends=True)}


def _stored_output(output: dict[str, Any]) -> dict[str, Any]:
    if output["output_type"] == "execute_result":
        return output | {"execution_count": None}
    return {key: value for key, value in output.items() if key != "transient"}


def main() -> None:
    """Prints the notebooks that it changed."""
    parser = argparse.ArgumentParser(prog="python -m analysis.notebooks", description=__doc__)
    parser.add_argument(
        "--strip", action="store_true", help="execute nothing: outputs stay those of the file"
    )
    is_stripped = parser.parse_args().strip
    for path in sorted(FOLDER.glob("*.ipynb")):
        content = path.read_text(encoding="utf-8")
        stored = stored_form(content if is_stripped else executed(content))
        if stored != content:
            write_atomic(path, stored.encode())
            print(path)


if __name__ == "__main__":
    main()
