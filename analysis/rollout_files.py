"""What analyses of single rollouts read of a run directory, and of which iterations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

import vineppo
from analysis.reading import Run
from vineppo.errors import UserError
from vineppo.run_dir import RunDir

EMBEDDED = "embedded:"  # models that the package carries

Row = dict[str, Any]


def chosen_iterations(saved: Sequence[int], wanted: str, path: Path) -> list[int]:
    """Of those saved, ascending: "ends" are the first, the middle and the last.

    Of 1, 2, …, 12 these are 1, 7, 12. Raises `UserError` for one that is not saved.
    """
    if wanted == "all":
        return list(saved)
    if wanted == "last":
        return list(saved[-1:])
    if wanted == "ends":
        return sorted({saved[0], saved[len(saved) // 2], saved[-1]})
    try:
        numbers = sorted({int(text) for text in wanted.split(",")})
    except ValueError:
        raise UserError(
            f"--iterations must be ends, all, last or numbers with commas, got {wanted!r}"
        ) from None
    for number in numbers:
        if number not in saved:
            held = ", ".join(map(str, saved))
            raise UserError(f"{path} has no rollouts of iteration {number} (only of {held})")
    return numbers


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
