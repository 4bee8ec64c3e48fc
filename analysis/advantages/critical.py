"""The steps at which the value of a response changes most, as text to read."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from analysis.advantages.credit import TRUTH, Credit, RunIteration
from analysis.frames import Run
from analysis.rollout_files import find_tokenizer


@dataclass(frozen=True)
class CriticalStep(RunIteration):
    """Row of critical_steps.csv: the step of a rollout at which |ΔV| is largest.

    By the values of `source`: those that the run had while training, else the true ones. `prompt`
    and `step_text` are empty where no tokenizer is on this machine, `true_before` and `true_after`
    where the ground truth is not known.
    """

    source: str
    problem_id: str
    rollout_index: int
    step_index: int
    num_steps: int
    reward: float
    value_before: float
    value_after: float
    true_before: float | None
    true_after: float | None
    prompt: str | None
    step_text: str | None


def critical_steps(credit: Credit, tokenizer: Any, num_steps: int) -> list[CriticalStep]:
    """The largest changes of value of an iteration, at most one a problem, the largest first.

    None of a run without values. Of equal changes the first in the table of rollouts counts.
    """
    source = credit.values_source
    if source is None:
        return []
    candidates = []
    for place, values in enumerate(credit.values[source]):
        sizes_S = np.abs(np.diff(values))
        if not np.isnan(sizes_S).all() and np.nanmax(sizes_S) > 0:
            step = int(np.nanargmax(sizes_S))
            candidates.append((-float(sizes_S[step]), place, step))
    chosen: dict[str, CriticalStep] = {}
    for _, place, step in sorted(candidates):
        if len(chosen) == num_steps:
            break
        problem_id = credit.rows[place]["problem_id"]
        if problem_id not in chosen:
            chosen[problem_id] = _critical_step(credit, source, place, step, tokenizer)
    return list(chosen.values())


def _critical_step(
    credit: Credit, source: str, place: int, step: int, tokenizer: Any
) -> CriticalStep:
    row = credit.rows[place]
    before, after = credit.values[source][place][step : step + 2]
    truths: list[float | None] = [None, None]
    if TRUTH in credit.values:
        truths = [_known(value) for value in credit.values[TRUTH][place][step : step + 2]]
    texts: list[str] | None = None
    if tokenizer is not None:
        texts = step_texts(tokenizer, row["response_ids"], row["step_starts"])
    return CriticalStep(
        **vars(credit.of),
        source=source,
        problem_id=row["problem_id"],
        rollout_index=row["rollout_index"],
        step_index=step,
        num_steps=len(row["step_starts"]),
        reward=row["reward"],
        value_before=float(before),
        value_after=float(after),
        true_before=truths[0],
        true_after=truths[1],
        prompt=(
            None
            if tokenizer is None
            else tokenizer.decode(row["prompt_ids"], skip_special_tokens=False)
        ),
        step_text=None if texts is None else texts[step],
    )


def step_texts(tokenizer: Any, response_ids: Sequence[int], starts: Sequence[int]) -> list[str]:
    from vineppo.segment.token_texts import backend_token_texts

    pieces = backend_token_texts(tokenizer, response_ids)
    return ["".join(pieces[a:b]) for a, b in pairwise([*starts, len(pieces)])]


def run_tokenizer(path: Path, config: dict[str, Any]) -> Any:
    """A `tokenizers.Tokenizer`, None where the run's models have left none on this machine."""
    return find_tokenizer(Run(path, config))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
