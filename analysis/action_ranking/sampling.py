"""Which tables of `action-ranking` are missing, and one checkpoint's table from its rollouts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.action_ranking.stages import Job, Line, follow, propose
from analysis.action_ranking.table import RankedStep, table_path, write_ranking
from analysis.rollout_files import read_rollouts
from analysis.sampling.alternatives import Alternative
from analysis.sampling.critics import critic_values
from analysis.sampling.journal import Journal
from analysis.sampling.policies import (
    Policies,
    choose,
    open_policies,
    policy_paths,
    shared_config,
)
from analysis.sampling.settings_file import is_made, of_checkpoint, write_settings
from analysis.sampling.states import (
    query_states,
    rollout_iteration,
    sample_boundaries,
)
from analysis.stats.ranking import MIN_ALTERNATIVES
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.segment import build_segmenter
from vineppo.segment.token_texts import token_texts

Settings = dict[str, Any]


def sample_missing(
    paths: Sequence[Path], out: Path, checkpoints: str, settings: Settings
) -> list[Path]:
    """The tables of the runs' chosen checkpoints; starts the engine only where one is missing."""
    start = shared_config(paths).model.path
    wanted: dict[Path, tuple[Path, str, Settings]] = {}
    for path in paths:
        found = policy_paths(path, start)
        usable = [i for i in found if rollout_iteration(path, i) is not None]
        if not usable:
            raise UserError(f"{path} has no policy whose rollouts are saved")
        for iteration in choose(usable, checkpoints, path):
            about = of_checkpoint(path, iteration, settings)
            wanted[table_path(out, path, iteration)] = path, found[iteration], about
    missing = [target for target, (_, _, about) in wanted.items() if not is_made(target, about)]
    if missing:
        with open_policies(paths, settings["seed"]) as policies:
            for target in missing:
                path, policy, about = wanted[target]
                make_table(policies, path, policy, target, about)
    return list(wanted)


def make_table(
    policies: Policies, run_path: Path, policy: str, target: Path, settings: Settings
) -> None:
    """Samples the alternatives at one checkpoint's states and what follows them; resumable."""
    config = shared_config([run_path])
    checkpoint, seed = settings["checkpoint"], settings["seed"]
    iteration = rollout_iteration(run_path, checkpoint)
    assert iteration is not None, "only checkpoints with rollouts are chosen"
    rows = read_rollouts(run_path, iteration)
    states = sample_boundaries(rows, settings["num_states"], seed, iteration)
    states = [*query_states(states), *states]
    if not states:
        raise UserError(f"{run_path}: no rollout of iteration {iteration} has two steps")
    journal = Journal(target.with_suffix(".partial.jsonl"), settings)
    policies.load(policy)
    job = Job(policies, states, journal, settings, f"{run_path}, iteration {checkpoint}")
    alternatives, proposals_cost = propose(job, build_segmenter(config.credit.segmenter))
    chosen = {place: of for place, of in alternatives.items() if len(of) >= MIN_ALTERNATIVES}
    lines, cost = follow(job, chosen)
    tags = [(place, index) for place, of in sorted(chosen.items()) for index in range(len(of))]
    steps = [
        ranked_step(job, iteration, tag, chosen[tag[0]][tag[1]], lines.get(tag, {})) for tag in tags
    ]
    if config.critic is not None:
        steps = with_critic(job, config, policy, [place for place, _ in tags], steps)
    write_ranking(target, steps)
    write_settings(target, settings | {"proposals": proposals_cost, "continuations": cost})
    journal.close()


def ranked_step(
    job: Job,
    iteration: int,
    tag: tuple[int, int],
    alternative: Alternative,
    lines: dict[str, Line],
) -> RankedStep:
    """A row of the table; `lines` are the journal's by kind, none of a step that ends a response.

    The one return of such a step stands for each of the samples and draws.
    """
    place, index = tag
    state, settings, final = job.states[place], job.settings, alternative.final_return
    if final is None:
        truth, draws_D = lines["truth"], lines["draws"]["returns"]
    else:
        num_correct = settings["num_samples"] * final
        truth = {"num_correct": num_correct, "num_truncated": 0, "num_tokens": 0}
        draws_D = (final,) * settings["num_draws"]
    before, whole = len(state.prefix_ids), (*state.prefix_ids, *alternative.step_ids)
    return RankedStep(
        checkpoint=settings["checkpoint"],
        rollout_iteration=iteration,
        num_drawn_states=len(job.states),
        problem_id=state.row["problem_id"],
        rollout_index=state.row["rollout_index"],
        step_index=state.step_index,
        num_steps=len(state.row["step_starts"]),
        prefix_length=before,
        response_length=len(state.row["response_ids"]),
        alternative_index=index,
        step_ids=alternative.step_ids,
        step_text="".join(token_texts(job.policies.sampler.tokenizer, whole)[before:]),
        num_proposed=alternative.num_proposed,
        num_proposals=alternative.num_proposals,
        is_terminal=final is not None,
        num_samples=settings["num_samples"],
        num_correct=truth["num_correct"],
        num_truncated=truth["num_truncated"],
        num_tokens=truth["num_tokens"],
        draws_D=tuple(draws_D),
        critic_value=None,
    )


def with_critic(
    job: Job, config: TrainConfig, policy: str, places: Sequence[int], steps: Sequence[RankedStep]
) -> list[RankedStep]:
    """V of the state after each step; of one that ends the response its return, as in training."""
    policies = job.policies
    going_on = [
        (*policies.prompt(step.problem_id).token_ids, *job.states[place].prefix_ids, *step.step_ids)
        for place, step in zip(places, steps, strict=True)
        if not step.is_terminal
    ]
    policies.sampler.engine.sleep()
    values = iter(critic_values(config, policy, job.settings["checkpoint"], going_on))
    policies.sampler.engine.wake()
    return [
        replace(step, critic_value=float(step.draws_D[0]) if step.is_terminal else next(values))
        for step in steps
    ]
