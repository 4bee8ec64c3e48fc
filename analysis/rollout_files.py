"""What analyses of single rollouts read of a run directory."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

import vineppo
from analysis.reading import Run
from vineppo.run_dir import RunDir

EMBEDDED = "embedded:"  # models that the package carries

Row = dict[str, Any]


def find_tokenizer(run: Run) -> Tokenizer | None:
    """Of the final policy, a checkpoint or the starting policy: what is on this machine."""
    run_dir = RunDir(run.path)
    checkpoints = sorted(run_dir.checkpoints_path.glob("iter_*"), reverse=True)
    folders = [run_dir.final_path / "policy", *(path / "policy" for path in checkpoints)]
    start = run.config.get("model", {}).get("path")
    if start and start.startswith(EMBEDDED):
        assets = Path(vineppo.__file__).parent / "assets"
        folders.append(assets / start.removeprefix(EMBEDDED))
    elif start:
        folders.append(Path(start))
    for folder in folders:
        if (folder / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(folder / "tokenizer.json"))
    return None


def values_by_state(run_dir: RunDir, iteration: int) -> dict[tuple[str, int, int], Row]:
    """The rows of `values/` by problem, rollout and step; none where none were saved."""
    if iteration not in run_dir.iterations("values"):
        return {}
    return {
        (row["problem_id"], row["rollout_index"], row["step_index"]): row
        for row in run_dir.read_values(iteration)
    }
