"""HTML of a run's last rollouts: each step in the colour of its advantage, its value on hover."""

from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from analysis.reading import Run
from vineppo.run_dir import RunDir
from vineppo.segment.token_texts import backend_token_texts

NUM_PROBLEMS = 6
NUM_ROLLOUTS = 4
# Blue raises, vermilion lowers: told apart with every common kind of colour blindness.
RAISED_RGB, LOWERED_RGB = "0,114,178", "213,94,0"

Row = dict[str, Any]


def rollouts_html(run: Run) -> str:
    """The first problems of the last rollouts table, a few responses of each.

    Steps are shown apart where the run directory (or the model's) has a tokenizer.json; without
    one, the texts are shown whole.
    """
    run_dir = RunDir(run.path)
    iterations = run_dir.iterations("rollouts")
    if not iterations:
        return "<p>No rollouts were saved.</p>"
    last = iterations[-1]
    backend = _find_tokenizer(run)
    rows_by_problem: dict[str, list[Row]] = {}
    for row in run_dir.read_rollouts(last):
        rows_by_problem.setdefault(row["problem_id"], []).append(row)
    shown = list(rows_by_problem.values())[:NUM_PROBLEMS]
    values = _values_by_state(run_dir, last)
    scale = max(
        (abs(a) for rows in shown for row in rows[:NUM_ROLLOUTS] for a in row["advantages_S"]),
        default=0.0,
    )
    head = (
        f"<p>Iteration {last}: {len(shown)} of {len(rows_by_problem)} problems. A step's colour is "
        f"its advantage, from {_chip(-scale, scale)} to {_chip(scale, scale)}; hover for its value "
        "and returns.</p>"
    )
    return head + "".join(_problem_html(rows, values, scale, backend) for rows in shown)


def _find_tokenizer(run: Run) -> Tokenizer | None:
    run_dir = RunDir(run.path)
    checkpoints = sorted(run_dir.checkpoints_path.glob("iter_*"), reverse=True)
    folders = [run_dir.final_path / "policy", *(path / "policy" for path in checkpoints)]
    if model_path := run.config.get("model", {}).get("path"):
        folders.append(Path(model_path))
    for folder in folders:
        if (folder / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(folder / "tokenizer.json"))
    return None


def _values_by_state(run_dir: RunDir, iteration: int) -> dict[tuple[str, int, int], Row]:
    if iteration not in run_dir.iterations("values"):
        return {}
    return {
        (row["problem_id"], row["rollout_index"], row["step_index"]): row
        for row in run_dir.read_values(iteration)
    }


def _problem_html(
    rows: list[Row],
    values: dict[tuple[str, int, int], Row],
    scale: float,
    backend: Tokenizer | None,
) -> str:
    mean = sum(row["reward"] for row in rows) / len(rows)
    prompt = ""
    if backend is not None:
        text = backend.decode(rows[0]["prompt_ids"], skip_special_tokens=False)
        prompt = f"<pre class=prompt>{escape(text)}</pre>"
    responses = "".join(
        f"<div class=response><span class=reward>reward {row['reward']:g}"
        f"{' (cut off)' if row['finish_reason'] == 'length' else ''}</span>"
        f"<pre>{_response_html(row, values, scale, backend)}</pre></div>"
        for row in rows[:NUM_ROLLOUTS]
    )
    title = f"{escape(rows[0]['problem_id'])} · mean reward {mean:.2f} of {len(rows)}"
    return f"<details open><summary>{title}</summary>{prompt}{responses}</details>"


def _response_html(
    row: Row,
    values: dict[tuple[str, int, int], Row],
    scale: float,
    backend: Tokenizer | None,
) -> str:
    if backend is None:
        return escape(row["text"])
    pieces = backend_token_texts(backend, row["response_ids"])
    edges = [*row["step_starts"], len(pieces)]
    return "".join(
        _step_html(
            "".join(pieces[start:end]),
            row["advantages_S"][step],
            values.get((row["problem_id"], row["rollout_index"], step)),
            f"step {step + 1} of {len(edges) - 1}",
            scale,
        )
        for step, (start, end) in enumerate(pairwise(edges))
    )


def _step_html(text: str, advantage: float, value: Row | None, title: str, scale: float) -> str:
    lines = [title, f"advantage {advantage:+.3f}"]
    if value is not None and value["returns_K"]:
        returns = value["returns_K"]
        listed = " ".join(f"{one:g}" for one in returns)
        lines.append(f"value before {sum(returns) / len(returns):.3f} (returns {listed})")
    if value is not None and value["critic_value"] is not None:
        lines.append(f"critic's value {value['critic_value']:.3f}")
    hover = escape("\n".join(lines)).replace("\n", "&#10;")
    style = _colour(advantage, scale)
    return f'<span class=step style="{style}" title="{hover}">{escape(text)}</span>'


def _colour(advantage: float, scale: float) -> str:
    strength = abs(advantage) / scale if scale else 0.0
    rgb = RAISED_RGB if advantage >= 0 else LOWERED_RGB
    return f"background:rgba({rgb},{0.65 * strength:.3f})"


def _chip(advantage: float, scale: float) -> str:
    return f'<span class=step style="{_colour(advantage, scale)}">{advantage:+.2f}</span>'
