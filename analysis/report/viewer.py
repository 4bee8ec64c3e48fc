"""Data of the rollout viewer, as plain tables for the page's script.

    {"runs": [{"name", "path", "tables": [
        {"iteration", "scale", "low", "high", "num_problems", "problems": [
            {"id", "prompt", "rewards", "responses": [
                {"index", "reward", "is_cut", "text", "steps": [
                    {"text", "advantage", "returns", "critic", "truth"}]}]}]}]}]}

A step has only what is known of it and of the state before it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from analysis.frames import Run, choose_iterations
from analysis.rollout_files import ADVANTAGES, find_tokenizer, read_rollouts, values_by_state
from analysis.stats.errors import jeffreys_interval
from analysis.truth import Prefix, TruthState, truths_of_iteration
from vineppo.run_dir import RunDir

COLUMNS = ("prompt_ids", "text", "finish_reason", ADVANTAGES)
DIGITS = 4
LEVEL = 0.95

Row = dict[str, Any]
Data = dict[str, Any]


@dataclass(frozen=True)
class Extent:
    """How much of the tables the page carries: `iterations` is ends, all, last or N,N…."""

    iterations: str
    num_problems: int
    num_responses: int


@dataclass(frozen=True)
class Source:
    """Values, truths and tokenizer of the rollouts of one iteration."""

    values: dict[tuple[str, int, int], Row]
    truths: dict[Prefix, TruthState]
    backend: Tokenizer | None


def viewer_data(
    runs: Sequence[Run],
    names: Sequence[str],
    extent: Extent,
    truths: Mapping[Path, dict[int, Path]],
) -> Data:
    """`truths` are each run's ground-truth tables by checkpoint (`truth.truth_tables`)."""
    shown = [
        {"name": name, "path": str(run.path), "tables": _tables(run, extent, truths[run.path])}
        for run, name in zip(runs, names, strict=True)
    ]
    return {"runs": shown}


def _tables(run: Run, extent: Extent, truths: dict[int, Path]) -> list[Data]:
    saved = RunDir(run.path).iterations("rollouts")
    missing = f"{run.path} has no rollouts"
    wanted = choose_iterations(saved, extent.iterations, "--iterations", missing) if saved else []
    backend = find_tokenizer(run)
    tables = []
    for iteration in wanted:
        rows = read_rollouts(run.path, iteration, COLUMNS)
        values = values_by_state(run.path, iteration)
        states = truths_of_iteration(truths, iteration, rows)
        source = Source(values, states, backend)
        tables.append({"iteration": iteration} | _table(rows, source, extent))
    return tables


def _table(rows: Sequence[Row], source: Source, extent: Extent) -> Data:
    """Problems with ground truth come first, otherwise in the table's order."""
    by_problem: dict[str, list[Row]] = {}
    for row in rows:
        by_problem.setdefault(row["problem_id"], []).append(row)
    with_truth = {problem_id for problem_id, _ in source.truths}
    ids = sorted(by_problem, key=lambda problem_id: problem_id not in with_truth)
    problems = [
        _problem(by_problem[problem_id], source, extent.num_responses)
        for problem_id in ids[: extent.num_problems]
    ]
    shown = [response for problem in problems for response in problem["responses"]]
    steps = [step for response in shown for step in response["steps"]]
    rewards = [row["reward"] for row in rows]
    return {
        "scale": max((abs(step["advantage"] or 0.0) for step in steps), default=0.0),
        "low": min([0.0, *rewards]),
        "high": max([1.0, *rewards]),
        "num_problems": len(by_problem),
        "problems": problems,
    }


def _problem(rows: Sequence[Row], source: Source, num_responses: int) -> Data:
    problem_id, prompt = rows[0]["problem_id"], None
    if source.backend is not None:
        prompt = source.backend.decode(rows[0]["prompt_ids"], skip_special_tokens=False)
    return {
        "id": problem_id,
        "prompt": prompt,
        "rewards": [row["reward"] for row in rows],
        "responses": [_response(row, source) for row in rows[:num_responses]],
    }


def _response(row: Row, source: Source) -> Data:
    from vineppo.segment import token_texts  # its package imports torch

    edges = [*row["step_starts"], len(row["response_ids"])]
    texts: list[str | None] = [None] * len(row["step_starts"])
    if source.backend is not None:
        pieces = token_texts(source.backend, row["response_ids"])
        texts = ["".join(pieces[start:end]) for start, end in pairwise(edges)]
    return {
        "index": row["rollout_index"],
        "reward": row["reward"],
        "is_cut": row["finish_reason"] == "length",
        "text": row["text"] if source.backend is None else None,
        "steps": [
            _step(row, step, text, advantage, source)
            for step, (text, advantage) in enumerate(zip(texts, row["advantages_S"], strict=True))
        ],
    }


def _step(row: Row, step: int, text: str | None, advantage: float, source: Source) -> Data:
    known: Data = {"advantage": _rounded(advantage)}
    if text is not None:
        known["text"] = text
    problem_id = row["problem_id"]
    value = source.values.get((problem_id, row["rollout_index"], step))
    if value is not None and value["returns_K"]:
        known["returns"] = [_rounded(number) for number in value["returns_K"]]
    if value is not None and value["critic_value"] is not None:
        known["critic"] = _rounded(value["critic_value"])
    truth = source.truths.get((problem_id, tuple(row["response_ids"][: row["step_starts"][step]])))
    if truth is not None:
        # 64 of 256 returns are 0.250 (0.200 to 0.306).
        ends = jeffreys_interval(truth.num_correct, truth.num_samples, LEVEL)
        low, high = (round(float(end), DIGITS) for end in ends)
        counts = {"correct": truth.num_correct, "samples": truth.num_samples}
        known["truth"] = counts | {"low": low, "high": high, "policy": truth.checkpoint}
    return known


def _rounded(number: float) -> float | None:
    """Short to write; None for what is not finite, of a critic that has diverged, say."""
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else round(number, DIGITS)
