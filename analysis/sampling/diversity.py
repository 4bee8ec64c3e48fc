"""Responses of the last policies of runs, and how far these are from the starting one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import torch

from analysis.frames import Run
from analysis.sampling.kl import choose_prompts
from analysis.sampling.policies import Policies, policy_paths
from analysis.sampling.rollouts import groups_of, sample_responses
from analysis.stats.bootstrap import mean_over_problems
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.evaluate import refuse_several_processes
from vineppo.models import named_weights
from vineppo.run_dir.config import read_config

STREAM = "diversity"
Ids = tuple[int, ...]


def sampled_rows(runs: Sequence[Run], settings: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """A row of the starting policy, and one of the last of every run.

    All draw the same random numbers. Raises `UserError` where runs differ in starting policy, task
    or sampling.
    """
    refuse_several_processes("this analysis")
    configs = [read_config(run.path) for run in runs]
    first = configs[0]
    for run, config in zip(runs, configs, strict=True):
        if (config.model.path, config.task, config.sampling) != (
            first.model.path, first.task, first.sampling
        ):  # fmt: skip
            raise UserError(
                f"{runs[0].path} and {run.path} differ in model.path, task or sampling, which runs "
                "that are compared must share"
            )
    start = first.model.path
    if start is None:
        raise UserError(f"{runs[0].path} starts from no policy (model.path is null)")
    of_start = {"run_dir": start, "method": "start", "seed": settings["seed"], "iteration": 0}
    with ExitStack() as stack:
        # Of a run's own kind it asks for nothing that self-training has not.
        policies = Policies(cast(TrainConfig, first), settings["seed"], stack)
        yield of_start | _measure(policies, start, settings)
        for run in runs:
            iteration, path = list(policy_paths(run.path, start).items())[-1]
            if iteration == 0:
                raise UserError(f"{run.path} has no final policy and no checkpoint")
            yield run.identity | {"iteration": iteration} | _measure(policies, path, settings)


def _measure(policies: Policies, path: str, settings: Mapping[str, int]) -> dict[str, Any]:
    model = policies.load(path)
    rollouts = sample_responses(
        policies.sampler,
        choose_prompts(policies.test_P, settings["num_problems"], settings["seed"]),
        settings["num_samples"],
        (STREAM,),
        Path(path).parent.name,
    )
    groups = [[(r.response_ids, r.reward) for r in group] for group in groups_of(rollouts)]
    ids_P = [[ids for ids, _ in group] for group in groups]
    return {
        "distance": distance(model, policies.loaded.model),
        "diversity": mean_over_problems(list(map(tree_diversity, ids_P))),
        "distinct": mean_over_problems([len(set(ids)) / len(ids) for ids in ids_P]),
        "pass@1": mean_over_problems(
            [sum(reward > 0.5 for _, reward in group) / len(group) for group in groups]
        ),
        "num_problems": len(groups),
        "samples_per_problem": settings["num_samples"],
    }


@torch.no_grad()
def distance(model: torch.nn.Module, start: torch.nn.Module) -> float:
    """‖θ − θ_0‖ / ‖θ_0‖ over all weights. 3, 4 from 0, 5: √(9 + 1)/5."""
    moved, size = 0.0, 0.0
    for (_, now), (_, before) in zip(named_weights(model), named_weights(start), strict=True):
        moved += float((now.double() - before.double()).square().sum())
        size += float(before.double().square().sum())
    return (moved / size) ** 0.5


def tree_diversity(responses: Sequence[Ids]) -> float:
    """Nodes of the trie of token ids over all tokens. Of ab, ac, ab: (a, ab, ac) / 6 = 0.5."""
    nodes = {prefix for ids in responses for prefix in accumulate((t,) for t in ids)}
    return len(nodes) / sum(map(len, responses))
