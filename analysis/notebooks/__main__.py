"""`python -m analysis.notebooks`: brings the notebooks of this folder into their stored form.

That is without outputs and whatever else an editor adds, so that a difference in git is one of the
text. Cells keep their ids.
"""

import json
from pathlib import Path
from typing import Any

from vineppo.run_dir.files import write_atomic

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
NBFORMAT = {"nbformat": 4, "nbformat_minor": 5}


def stored_form(content: str) -> str:
    """A notebook as it is to be stored: JSON as `nbformat` writes it."""
    cells = map(_stored_cell, json.loads(content)["cells"])
    notebook = {"cells": list(cells), "metadata": METADATA, **NBFORMAT}
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _stored_cell(cell: dict[str, Any]) -> dict[str, Any]:
    source = "".join(cell["source"]).strip("\n")
    kept = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": {}}
    if cell["cell_type"] == "code":
        kept |= {"execution_count": None, "outputs": []}
    return kept | {"source": source.splitlines(keepends=True)}


def main() -> None:
    """Prints the notebooks that it changed."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        content = path.read_text(encoding="utf-8")
        stored = stored_form(content)
        if stored != content:
            write_atomic(path, stored.encode())
            print(path)


if __name__ == "__main__":
    main()
