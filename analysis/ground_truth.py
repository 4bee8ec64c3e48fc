"""`ground-truth`: the values of a run's states by many fresh continuations, policy by policy."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis import figures
from analysis.summary_file import write_summary
from analysis.truth import (
    ANALYSIS,
    TruthState,
    check_names,
    counts,
    read_truth,
    truth_path,
    write_truth,
)
from vineppo.errors import UserError
from vineppo.run_dir.atomic import named_errors, write_atomic
from vineppo.run_dir.metrics_log import strict_json

if TYPE_CHECKING:
    from analysis.sampling.policies import Policies
    from analysis.sampling.states import RolloutState

NUM_BINS = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoints", default="last", metavar="all|last|spaced:N|N,N…", help="default: last"
    )
    parser.add_argument("--num-states", type=int, default=512, help="step boundaries a checkpoint")
    parser.add_argument("--num-samples", type=int, default=256, help="continuations of a state")
    parser.add_argument(
        "--num-draws", type=int, default=32, help="further ones, for the predictions of MC(K)"
    )
    parser.add_argument("--seed", type=int, default=0, help="which states, which continuations")


def run(
    paths: list[Path],
    out: Path,
    checkpoints: str,
    num_states: int,
    num_samples: int,
    num_draws: int,
    seed: int,
) -> None:
    """Writes a table a run and checkpoint, a figure and a summary; prints their paths.

    What is there already is kept; what a kill interrupted goes on.
    """
    from analysis.sampling.policies import open_policies

    if num_states < 1 or num_samples < 2 or num_draws < 0:
        raise UserError(
            "--num-states must be at least 1, --num-samples 2 and --num-draws 0, got "
            f"{num_states}, {num_samples} and {num_draws}"
        )
    check_names(paths)
    tables: dict[Path, list[TruthState]] = {}
    with open_policies(paths, seed) as policies:
        for path in paths:
            for iteration, policy in _policies_of(path, policies, checkpoints).items():
                target = truth_path(out, path, iteration)
                settings = {
                    "run": path.resolve().name,
                    "checkpoint": iteration,
                    "num_states": num_states,
                    "num_samples": num_samples,
                    "num_draws": num_draws,
                    "seed": seed,
                }
                make_table(policies, path, policy, target, settings)
                tables[target] = read_truth(target)
    for written in [*tables, *_figure(out, tables), write_summary(out, ANALYSIS, _summary(tables))]:
        print(written)


def make_table(
    policies: "Policies", run_path: Path, policy: str, target: Path, settings: dict[str, Any]
) -> None:
    """Samples the states of one checkpoint, unless the table is there; resumable."""
    from analysis.sampling.continuations import Returns, StateRequest, sample_returns
    from analysis.sampling.journal import Journal, check_settings
    from analysis.sampling.meter import Meter
    from analysis.sampling.states import query_states, read_rollouts, sample_boundaries
    from analysis.sampling.states import rollout_iteration as iteration_of

    about = target.with_suffix(".json")
    if target.exists() and about.exists():
        check_settings(target, _read_json(about), settings)
        return
    checkpoint = settings["checkpoint"]
    rollout_iteration = iteration_of(run_path, checkpoint)
    assert rollout_iteration is not None, "only checkpoints with rollouts are chosen"
    rows = read_rollouts(run_path, rollout_iteration)
    seed = settings["seed"]
    states = sample_boundaries(rows, settings["num_states"], seed, rollout_iteration)
    states = [*query_states(states), *states]
    if not states:
        raise UserError(f"{run_path}: no rollout of iteration {rollout_iteration} has two steps")
    journal = Journal(target.with_suffix(".partial.jsonl"), settings)
    results = {(line["state"], line["kind"]): line for line in journal.lines}
    kinds = {"truth": settings["num_samples"], "draws": settings["num_draws"]}
    missing = (
        StateRequest(
            policies.prompt(state.row["problem_id"]), state.prefix_ids, number,
            (checkpoint, "ground-truth", kind), (place, kind),
        )
        for place, state in enumerate(states)
        for kind, number in kinds.items()
        if number and (place, kind) not in results
    )  # fmt: skip
    policies.load(policy)
    title = f"{run_path}, iteration {checkpoint}"
    total = len(states) * sum(number > 0 for number in kinds.values())
    with Meter(title, total, len(results), policies.sampler.engine) as meter:

        def keep(request: StateRequest, returns: Returns) -> None:
            place, kind = request.tag
            line = {
                "state": place,
                "kind": kind,
                "num_correct": sum(returns.returns_K),
                "num_truncated": returns.num_truncated,
                "num_tokens": returns.num_tokens,
                "returns": returns.returns_K if kind == "draws" else (),
            }
            results[place, kind] = line
            journal.append(line)
            meter.advance()

        sample_returns(policies.sampler, missing, keep, meter.tick)
        cost = {"tokens_per_s": meter.tokens_per_s, "time_s": meter.time_s}
    nothing: dict[str, Any] = {"returns": ()}
    table = [
        _row(
            state,
            settings,
            rollout_iteration,
            results[place, "truth"],
            results.get((place, "draws"), nothing)["returns"],
        )
        for place, state in enumerate(states)
    ]
    write_truth(target, table)
    write_atomic(about, strict_json(settings | cost, indent=2))
    journal.close()


def _row(
    state: "RolloutState",
    settings: dict[str, Any],
    rollout_iteration: int,
    truth: dict[str, Any],
    draws: Sequence[int],
) -> TruthState:
    row = state.row
    return TruthState(
        checkpoint=settings["checkpoint"],
        rollout_iteration=rollout_iteration,
        problem_id=row["problem_id"],
        rollout_index=row["rollout_index"],
        step_index=state.step_index,
        num_steps=len(row["step_starts"]),
        prefix_length=len(state.prefix_ids),
        response_length=len(row["response_ids"]),
        reward=row["reward"],
        num_samples=settings["num_samples"],
        num_correct=truth["num_correct"],
        num_truncated=truth["num_truncated"],
        num_tokens=truth["num_tokens"],
        draws_D=tuple(draws),
    )


def _policies_of(path: Path, policies: "Policies", checkpoints: str) -> dict[int, str]:
    """The chosen policies of a run that have rollouts to look at."""
    from analysis.sampling.policies import choose, policy_paths
    from analysis.sampling.states import rollout_iteration

    found = policy_paths(path, policies.config.model.path)
    usable = [i for i in found if rollout_iteration(path, i) is not None]
    if not usable:
        raise UserError(f"{path} has no policy whose rollouts are saved")
    return {i: found[i] for i in choose(usable, checkpoints, path)}


def _figure(out: Path, tables: dict[Path, list[TruthState]]) -> list[Path]:
    """How the true values are spread, and where in the response they are which."""
    with figures.panels(1, 2) as (figure, axes):
        for index, (path, states) in enumerate(tables.items()):
            inner = [state for state in states if not state.is_query]
            style = figures.line_style(index)
            label = f"{path.parent.name}, iteration {states[0].checkpoint}"
            values_N = [state.value for state in inner]
            share, edges = np.histogram(values_N, NUM_BINS, (0, 1))
            axes[0].stairs(share / len(inner), edges, label=label, **style)
            position_N = np.array([state.prefix_length / state.response_length for state in inner])
            place_N = np.minimum((position_N * 10).astype(int), 9)
            mean = [np.mean(np.array(values_N)[place_N == i]) for i in np.unique(place_N)]
            axes[1].plot((np.unique(place_N) + 0.5) / 10, mean, **style)
        axes[0].set_xlabel("true value of a state")
        axes[0].set_ylabel("share of states")
        axes[1].set_xlabel("position in the response")
        axes[1].set_ylabel("mean true value")
        axes[1].set_ylim(0, 1)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, out / "ground_truth")


def _summary(tables: dict[Path, list[TruthState]]) -> dict[str, Any]:
    summary = {}
    for path, states in tables.items():
        inner = [state for state in states if not state.is_query]
        num_correct_N, num_samples_N = counts(inner)
        summary[f"{path.parent.name}/{path.stem}"] = {
            "num_states": len(inner),
            "num_query_states": len(states) - len(inner),
            "num_problems": len({state.problem_id for state in states}),
            "num_samples": states[0].num_samples,
            "rollout_iteration": states[0].rollout_iteration,
            "value_mean": float(np.mean(num_correct_N / num_samples_N)),
            "decided_frac": float(np.mean((num_correct_N == 0) | (num_correct_N == num_samples_N))),
            "num_tokens": sum(state.num_tokens for state in states),
        }
    return summary


def _read_json(path: Path) -> dict[str, Any]:
    with named_errors("read", path):
        content = path.read_bytes()
    try:
        found: dict[str, Any] = json.loads(content)
    except ValueError as error:
        raise UserError(f"{path} is no JSON file: {error}") from None
    return found
