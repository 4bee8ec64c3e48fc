"""Makes the table of one checkpoint's policy gradients: rollouts, values, advantages, gradients."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

from analysis.gradient_variance.costs import critic_share
from analysis.gradient_variance.table import GradientTable, write_gradients
from analysis.sampling.critic_tokens import TokenValues, critic_token_values
from analysis.sampling.estimator_costs import read_rates, sampled_tokens, seconds
from analysis.sampling.estimators import Estimator, advantages_of, choose_estimators
from analysis.sampling.fresh import Greedy, sample_rollouts, sample_values
from analysis.sampling.gradients import Unscored, problem_gradients
from analysis.sampling.journal import Journal
from analysis.sampling.policies import Policies, shared_config
from analysis.sampling.saved import SavedRollout, groups_of, read_saved
from analysis.sampling.settings_file import write_settings
from analysis.sampling.sketch import CountSketch, inner_products
from analysis.sampling.states import rollout_iteration
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.seeds import derive_seed
from vineppo.token_scores import TokenLogprobs

Settings = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A checkpoint's rollouts by problem; `greedy` are its greedy responses where it has some.

    They are the checkpoint's own where `iteration` is checkpoint + 1.
    """

    iteration: int
    groups: list[list[SavedRollout]]
    greedy: Greedy

    @property
    def saved(self) -> list[SavedRollout]:
        return [one for group in self.groups for one in group]

    @property
    def num_continuations(self) -> int:
        """The K that every state has; 0 where a state has no Monte-Carlo value."""
        if any(one.values_S is None for one in self.saved):
            return 0
        return min(len(value.returns_K) for one in self.saved for value in one.values_S or ())


def make_gradients(
    run_path: Path, policy_path: str, target: Path, settings: Settings, policies: Policies | None
) -> None:
    """Writes the table `target` of the checkpoint that `settings` name, sampling with `policies`.

    The rollouts are the checkpoint's own where they are saved or can be sampled, else those of one
    update earlier, which is said. Of those there is no gae: a critic that has learnt the returns of
    the rollouts is no baseline that is independent of them.
    """
    config, checkpoint = shared_config([run_path]), settings["checkpoint"]
    title = f"{run_path}, checkpoint {checkpoint}"
    journal = None
    if policies is None:
        source = _saved_source(run_path, settings, title)
    else:
        policies.load(policy_path)
        journal = Journal(target.with_suffix(".partial.jsonl"), settings)
        source = _sampled_source(run_path, config, settings, policies, journal, title)
    if len(source.groups) < 2:
        raise UserError(f"{title}: a covariance needs two problems, got {len(source.groups)}")
    table, about = _measure(run_path, policy_path, config, settings, source, title)
    write_gradients(target, table)
    write_settings(target, settings | about)
    if journal is not None:
        journal.close()


def _measure(
    run_path: Path,
    policy_path: str,
    config: TrainConfig,
    settings: Settings,
    source: Source,
    title: str,
) -> tuple[GradientTable, dict[str, Any]]:
    """The table, and what to note beside it."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    critic = None
    if source.iteration == settings["checkpoint"] + 1:
        rollouts = [one.rollout for one in source.saved]
        critic = critic_token_values(config, policy_path, settings["checkpoint"], rollouts, device)
    estimators = choose_estimators(
        config,
        settings["estimators"],
        source.num_continuations,
        has_critic=critic is not None,
        has_greedy=bool(source.greedy.rewards),
    )
    loaded = load_model(policy_path, "float32", "sdpa")
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).to(device).eval()
    products = _products(module, config, source, estimators, critic, settings, title)
    num_weights = _num_weights(module)
    share = critic_share(config, num_weights, critic.num_weights if critic else num_weights)
    tokens_EN = sampled_tokens(source.groups, estimators, source.greedy.num_tokens)
    table = GradientTable(
        run=run_path.resolve().name,
        method=config.name,
        seed=config.seed,
        checkpoint=settings["checkpoint"],
        rollout_iteration=source.iteration,
        estimators=tuple(estimator.name for estimator in estimators),
        problem_ids=tuple(group[0].rollout.problem.id for group in source.groups),
        num_tokens_EN=tokens_EN,
        time_s_EN=seconds(tokens_EN, estimators, read_rates(run_path, config, share)),
        gram_ENN=np.array([own_NN for own_NN, _ in products]),
        with_first_ENN=np.array([with_first_NN for _, with_first_NN in products]),
    )
    return table, {"num_weights": num_weights, "critic_share_of_learning": share}


def _products(
    module: TokenLogprobs,
    config: TrainConfig,
    source: Source,
    estimators: Sequence[Estimator],
    critic: TokenValues | None,
    settings: Settings,
    title: str,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of every estimator's gradients, with each other and with the first estimator's, [N, N]."""
    keys = [(one.rollout.problem.id, one.rollout.rollout_index) for one in source.saved]
    values = dict(zip(keys, critic.values, strict=True)) if critic else {}
    device = next(module.parameters()).device
    seed = derive_seed(settings["seed"], "projection")
    sketch = CountSketch(_num_weights(module), settings["projection"], seed, device)
    unscored = Unscored.of(source.groups, config)
    first_ND: np.ndarray | None = None
    products = []
    with Progress(transient=True) as bar:
        task = bar.add_task(f"{title}: gradients", total=len(estimators) * len(source.groups))
        for estimator in estimators:
            advantages_NGT = [
                advantages_of(estimator, group, values, source.greedy.rewards)
                for group in source.groups
            ]
            scored_NG = unscored.scored(advantages_NGT, settings["whiten"])
            rows_ND = problem_gradients(
                module, config, scored_NG, unscored.totals, sketch, lambda: bar.advance(task)
            )
            first_ND = rows_ND if first_ND is None else first_ND
            products.append((inner_products(rows_ND, rows_ND), inner_products(rows_ND, first_ND)))
    return products


def _saved_source(run_path: Path, settings: Settings, title: str) -> Source:
    iteration = rollout_iteration(run_path, settings["checkpoint"])
    if iteration is None:
        raise UserError(
            f"{title}: its rollouts are not saved, nor are those of one update earlier; "
            "--sample-values K samples them"
        )
    if iteration != settings["checkpoint"] + 1:
        print(
            f"{title}: its own rollouts are not saved; taking those of one update earlier, with "
            "the ratio of the policies and without gae (--sample-values K samples its own)"
        )
    groups = groups_of(read_saved(run_path, iteration))[: settings["num_problems"]]
    return Source(iteration, groups, Greedy({}, {}))


def _sampled_source(
    run_path: Path,
    config: TrainConfig,
    settings: Settings,
    policies: Policies,
    journal: Journal,
    title: str,
) -> Source:
    """The checkpoint's own rollouts, sampled where too few are saved, with fresh values."""
    checkpoint = settings["checkpoint"]
    iteration, number = checkpoint + 1, settings["num_problems"] or config.rollouts.num_prompts
    is_saved = rollout_iteration(run_path, checkpoint) == iteration
    groups = groups_of(read_saved(run_path, iteration)) if is_saved else []
    saved = [one for group in groups[:number] for one in group]
    if len(groups) < number:
        saved = sample_rollouts(policies, config, iteration, number, f"{title}, rollouts")
    saved, greedy = sample_values(
        policies, saved, settings["sample_values"], checkpoint, journal, f"{title}, values"
    )
    return Source(iteration, groups_of(saved), greedy)


def _num_weights(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())
