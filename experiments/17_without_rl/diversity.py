"""How far training moved the weights, and how alike the policy's answers became.

    python -m analysis experiments/17_without_rl/diversity.py RUN_DIR...

Of the starting policy and the last of every run, on the same test problems, sampled as in training.
The distance is ‖θ − θ_0‖ / ‖θ_0‖ over all weights. The diversity is that of the tree of a problem's
responses, nodes of their trie of tokens over their tokens: 1 where no two begin alike, 1/N where
all N are one.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pandas as pd
from matplotlib.ticker import MaxNLocator

from analysis import figures, frames, options
from analysis.frames import OF_RUN, Run
from analysis.stats.bootstrap import Estimate, mean_over_problems
from analysis.tables import Table
from vineppo.errors import UserError
from vineppo.types import question_of

# Intervals over problems. `distinct` is the share of a problem's responses that differ.
DIVERSITY = Table(
    "diversity.csv",
    OF_RUN
    | {"iteration": int, "distance": float}
    | dict.fromkeys(["diversity", "distinct", "pass@1"], Estimate)
    | {"num_problems": int, "samples_per_problem": int},
)
PANELS = ("pass@1", "diversity")
START, STREAM = "start", "diversity"
Ids = tuple[int, ...]


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_numbers(
        parser,
        problems=(64, "Sample responses to so many test problems."),
        num_samples=(8, "Sample so many responses of a problem."),
        seed=(0, "Choose problems and responses by this seed."),
    )


def run(paths: list[Path], out: Path, **settings: int) -> list[Path]:
    """Writes diversity.csv and .png; returns their paths.

    Each path is a run directory, or one directory whose diversity.csv is drawn again.
    """
    options.check_least(settings, problems=1, num_samples=2)
    if len(paths) > 1 and any(map(DIVERSITY.holds, paths)):
        raise UserError("diversity takes run directories, or one directory with their table")
    if DIVERSITY.holds(paths[0]):
        rows = DIVERSITY.read(paths[0])
    else:
        rows = DIVERSITY.frame(sampled_rows([frames.read_run(path) for path in paths], settings))
    return [*draw(rows, out / "diversity"), *DIVERSITY.write(out, rows)]


def draw(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A dot a run, by the distance; a method's mean is larger. Dotted: the starting policy."""
    trained = rows[rows["method"] != START]
    methods = list(trained["method"].unique())
    styles, labels = figures.method_styles(methods), figures.method_labels(methods)
    with figures.grid(len(PANELS), 2) as (figure, axes):
        for axis, column in zip(axes, PANELS, strict=True):
            axis.axhline(
                rows.loc[rows["method"] == START, column].iloc[0],
                color="0.6", linestyle=":", linewidth=0.8, label="starting policy",
            )  # fmt: skip
            for method in methods:
                own = trained[trained["method"] == method]
                style = styles[method] | {"linestyle": ""}
                axis.plot(own["distance"], own[column], **style, alpha=0.4)
                means = own[["distance", column]].mean()
                axis.plot(*means, **style | {"markersize": 7}, label=labels[method])
            axis.set(xlabel="‖θ − θ₀‖ / ‖θ₀‖", ylabel=column)
            axis.set_xlim(left=0)
            axis.xaxis.set_major_locator(MaxNLocator(4))
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def sampled_rows(runs: Sequence[Run], settings: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """A row of the starting policy, and one of the last of every run.

    All draw the same random numbers. Raises `UserError` where runs differ in starting policy, task
    or sampling.
    """
    from analysis.sampling.policies import Policies, policy_paths
    from vineppo.config.schema import TrainConfig
    from vineppo.distributed import refuse_several_processes
    from vineppo.run_dir.config import read_config

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


def _measure(policies: Any, path: str, settings: Mapping[str, int]) -> dict[str, Any]:
    from analysis.sampling.kl import choose_prompts
    from analysis.sampling.rollouts import groups_of, sample_responses

    model = policies.load(path)
    rollouts = sample_responses(
        policies.sampler,
        choose_prompts(policies.test_P, settings["problems"], settings["seed"]),
        settings["num_samples"],
        (STREAM,),
        Path(path).parent.name,
    )
    of_problem = groups_of(rollouts)
    groups = [[(r.response_ids, r.reward) for r in group] for group in of_problem]
    questions = [question_of(group[0].problem.id) for group in of_problem]
    ids_P = [[ids for ids, _ in group] for group in groups]
    return {
        "distance": distance(model, policies.loaded.model),
        "diversity": mean_over_problems(list(map(tree_diversity, ids_P)), questions),
        "distinct": mean_over_problems([len(set(ids)) / len(ids) for ids in ids_P], questions),
        "pass@1": mean_over_problems(
            [sum(reward > 0.5 for _, reward in group) / len(group) for group in groups], questions
        ),
        "num_problems": len(groups),
        "samples_per_problem": settings["num_samples"],
    }


def distance(model: Any, start: Any) -> float:
    """‖θ − θ_0‖ / ‖θ_0‖ over all weights. 3, 4 from 0, 5: √(9 + 1)/5."""
    from vineppo.models import named_weights

    moved, size = 0.0, 0.0
    for (_, now), (_, before) in zip(named_weights(model), named_weights(start), strict=True):
        moved += float((now.detach().double() - before.detach().double()).square().sum())
        size += float(before.detach().double().square().sum())
    return (moved / size) ** 0.5


def tree_diversity(responses: Sequence[Ids]) -> float:
    """Nodes of the trie of token ids over all tokens. Of ab, ac, ab: (a, ab, ac) / 6 = 0.5."""
    nodes = {prefix for ids in responses for prefix in accumulate((t,) for t in ids)}
    return len(nodes) / sum(map(len, responses))
