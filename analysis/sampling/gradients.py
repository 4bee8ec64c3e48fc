"""The policy gradients of a checkpoint's problems by every estimator, and their inner products.

All estimators share the rollouts and the policy. Gradients are of the run's loss, by the
trainer's forward pass, in the run's dtype at the training temperature.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

from analysis.sampling.advantages import (
    Estimator,
    advantages_of,
    choose_estimators,
    scaled,
    states_of_draws,
)
from analysis.sampling.journal import Journal
from analysis.sampling.policies import Checkpoint, Policies, add_entropies, add_values
from analysis.sampling.prices import critic_share, sampled_tokens, seconds
from analysis.sampling.returns import add_fresh_values
from analysis.sampling.rollouts import (
    groups_of,
    read_saved,
    rollout_iteration,
    sample_responses,
    write_sampled,
)
from analysis.stats.gradient_noise import adam_gains, noise_from_gram
from vineppo.batching import UpdateSizes, collate, problems_of_iteration, ranks_share
from vineppo.config.schema import TrainConfig
from vineppo.credit import Credit
from vineppo.errors import UserError
from vineppo.losses import Totals, aggregate
from vineppo.models import load_model
from vineppo.rollouts import Prompt
from vineppo.run_dir import RunDir
from vineppo.segment import steps_of
from vineppo.token_scores import ForwardOptions, TokenLogprobs
from vineppo.types import CRITIC, Rollout, TrainBatch, derive_seed
from vineppo.update import mask_equal_rewards, trained_tokens

COLUMNS = ("old_logprobs", "loss_advantages", "is_trained")
SKETCH_SIZE = 2**16  # coordinates of a gradient's sketch
CHUNK = 2**13  # columns whose double copies are held at once
HALVES = "", "second half"  # names of their random streams
NUM_COORDINATES = 2**18  # of the weights, drawn where there are more, for what Adam gains


@dataclass(frozen=True)
class Source:
    """A checkpoint's rollouts by problem; `greedy_tokens` counts tokens of greedy responses.

    They are the checkpoint's own where `iteration` is checkpoint + 1.
    """

    iteration: int
    groups: list[list[Rollout]]
    greedy_tokens: dict[str, int] = field(default_factory=dict)

    @property
    def rollouts(self) -> list[Rollout]:
        return [*chain.from_iterable(self.groups)]


def gradient_rows(
    policies: Policies, checkpoint: Checkpoint, journal: Journal
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row an estimator and problem, and what to note beside the table."""
    config, settings = checkpoint.config, checkpoint.settings
    halves, critic_weights = _halves(policies, checkpoint, journal)
    source = halves[0]
    estimators = _estimators(policies, checkpoint, halves)
    groups_HE = [
        groups_by_estimator(policies, checkpoint, half, estimators, name)
        for half, name in zip(halves, HALVES, strict=False)
    ]
    with policies.engine_asleep():
        loaded = load_model(checkpoint.policy_path, config.model.dtype, "sdpa")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).to(device).eval()
        num_weights = sum(weight.numel() for weight in module.parameters())
        products, within, gains = inner_products_of(module, checkpoint, groups_HE, estimators)
        del module
    share = critic_share(config, num_weights, critic_weights or num_weights)
    run = RunDir(checkpoint.run_path)
    metrics = run.read_metrics() if (run.path / "metrics.jsonl").exists() else []
    tokens_EN = sampled_tokens(groups_HE[0], estimators, source.greedy_tokens)
    time_s_EN = seconds(tokens_EN, estimators, metrics, config, share)
    rows = [
        {
            "run": settings["run"],
            "method": config.name,
            "seed": config.seed,
            "checkpoint": checkpoint.iteration,
            "rollout_iteration": source.iteration,
            "estimator": estimator.name,
            "problem_id": group[0].problem.id,
            "num_tokens": tokens_EN[e, n],
            "time_s": None if np.isnan(time_s_EN[e, n]) else time_s_EN[e, n],
            "gram_N": products[e][n],
            "within": within[e][n] if len(halves) == 2 else None,
            "adam_gain": gains[e][0],
            "adam_gain_without": gains[e][1 + n],
        }
        for e, estimator in enumerate(estimators)
        for n, group in enumerate(source.groups)
    ]
    return rows, {"num_weights": num_weights, "critic_share_of_learning": share}


def _halves(
    policies: Policies, checkpoint: Checkpoint, journal: Journal
) -> tuple[list[Source], int]:
    """Rollouts with values, a second half where they can be sampled; the critic's weights.

    The rollouts are the checkpoint's own if they are saved or can be sampled, else from one update
    earlier, with a notice. Those get no values from the checkpoint's predictors: a predictor
    that learnt from the rollouts' returns is not an independent baseline.
    """
    can_sample = checkpoint.settings["sample_values"] > 0
    source = (_sampled if can_sample else _saved)(policies, checkpoint, journal)
    if (count := len(source.groups)) < 2:
        raise UserError(f"{checkpoint.title}: a covariance needs two problems, got {count}")
    halves, critic_weights = [source], 0
    if can_sample:
        halves.append(_second_half(policies, checkpoint, journal, source))
    if source.iteration == checkpoint.iteration + 1:
        for half in halves:
            critic_weights = add_values(policies, checkpoint, half.rollouts).get(CRITIC, 0)
    if can_sample:
        beside = checkpoint.table.parents[2] / "sampled" / Path(*checkpoint.table.parts[-2:])
        write_sampled(beside, [half.rollouts for half in halves])
    return halves, critic_weights


def _estimators(
    policies: Policies, checkpoint: Checkpoint, halves: Sequence[Source]
) -> list[Estimator]:
    rollouts, names = halves[0].rollouts, checkpoint.settings["estimators"]
    found = choose_estimators(checkpoint.config, rollouts, names, can_sample=len(halves) == 2)
    if any(one.reads_entropies for one in filter(None, map(states_of_draws, found))):
        for half in halves:
            add_entropies(policies, checkpoint, half.rollouts)
    return [scaled(estimator, rollouts) for estimator in found]


def inner_products_of(
    module: TokenLogprobs,
    checkpoint: Checkpoint,
    groups_HE: Sequence[Sequence[Sequence[Sequence[Rollout]]]],
    estimators: Sequence[Estimator],
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Inner products of every estimator's gradients, [N, N], their noise within problems, [N], and
    what Adam gains by them, [1 + N].

    Inner products are the mean of both halves' where there are two, a and b. The noise within
    problem n is then |g_a − g_b|²/2, else 0. The gain is by the first half: `_adam_gains`.
    """
    config, settings = checkpoint.config, checkpoint.settings
    num_problems = len(groups_HE[0][0])
    seed = derive_seed(settings["seed"], "projection")
    device = next(module.parameters()).device
    num_weights = sum(weight.numel() for weight in module.parameters())
    sketch = CountSketch(num_weights, SKETCH_SIZE, seed, device)
    chosen_C = chosen_coordinates(num_weights, NUM_COORDINATES, seed)
    products, within, coordinates = [], [], []
    with Progress(transient=True) as bar:
        total = len(groups_HE) * len(estimators) * num_problems
        task = bar.add_task(f"{checkpoint.title}: gradients", total=total)
        for estimator, *groups_H in zip(estimators, *groups_HE, strict=True):
            halves = []
            for groups in groups_H:
                advantages = [advantages_of(estimator, group) for group in groups]
                set_advantages(groups, advantages, config, estimator.credit)
                halves.append(
                    problem_gradients(
                        module, config, groups, sketch, chosen_C, lambda: bar.advance(task)
                    )
                )
            products.append(np.mean([inner_products(rows_ND) for rows_ND, _ in halves], axis=0))
            difference_ND = halves[0][0] - halves[-1][0]
            within.append(np.square(difference_ND, dtype=np.float64).sum(1) / 2)
            coordinates.append(halves[0][1])
    scale = num_weights / len(chosen_C)
    return products, within, _adam_gains(config, estimators, products, coordinates, scale)


def _adam_gains(
    config: TrainConfig, estimators: Sequence[Estimator], products: Sequence[np.ndarray],
    coordinates: Sequence[np.ndarray], scale: float,
) -> list[np.ndarray]:  # fmt: skip
    """What Adam gains by all problems, then without each, [1 + N]; NaN for two problems.

    The signal comes from the least noisy differences of unbiased values, else from the first
    estimator.
    """
    num_problems = len(products[0])
    if num_problems < 3:
        return [np.full(1 + num_problems, np.nan)] * len(estimators)
    traces = {
        e: noise_from_gram(products[e], np.ones(num_problems)).trace
        for e, estimator in enumerate(estimators)
        if estimator.credit.differences_values and is_unbiased(config, estimator)
    }
    signal_NC = coordinates[min(traces, key=lambda e: traces[e], default=0)]
    return [
        scale
        * adam_gains(
            rows_NC, signal_NC, config.rollouts.num_prompts,
            is_scaled=estimator.credit.rescales,
        )
        for estimator, rows_NC in zip(estimators, coordinates, strict=True)
    ]  # fmt: skip


def is_unbiased(config: TrainConfig, estimator: Estimator) -> bool:
    """True where differences of its values average to differences of the policy's own values."""
    table = config.values.predictors.get(estimator.values_from or "")
    is_exact = table is not None and (
        table.predictor.is_exact or estimator.values_from in config.continuations
    )
    draws = estimator.credit.monte_carlo if estimator.of_draws else None
    return is_exact or (draws is not None and draws.states is None)


def chosen_coordinates(num_weights: int, most: int, seed: int) -> np.ndarray:
    """`most` of the weights' numbers, ascending, or all where there are no more."""
    count = min(most, num_weights)
    return np.sort(np.random.default_rng(seed).choice(num_weights, count, replace=False))


def set_advantages(
    groups: Sequence[Sequence[Rollout]],
    advantages_NGT: Sequence[Sequence[Sequence[float]]],
    config: TrainConfig,
    credit: Credit | None = None,
) -> None:
    """The columns that the loss reads.

    Advantages are 1 when an estimator says which tokens train. So a tree's segments of advantage 0
    count, which in training they do not: gradients of one scale are compared.
    """
    plain = replace(config, credit=Credit("", config.credit.segmenter))
    for group, advantages_GT in zip(groups, advantages_NGT, strict=True):
        for rollout, advantages_T in zip(group, advantages_GT, strict=True):
            trained_T = trained_tokens(rollout, rollout.logprobs_T, plain)
            if credit is not None:
                rollout.tokens_T["advantages"] = [1.0] * len(trained_T)
                chosen_T = credit.trained_tokens(rollout)
                trained_T = tuple(a and b for a, b in zip(trained_T, chosen_T, strict=True))
            rollout.tokens_T["old_logprobs"] = rollout.logprobs_T
            rollout.tokens_T |= {"is_trained": trained_T, "loss_advantages": advantages_T}
    if config.optimization.mask_equal_rewards:
        mask_equal_rewards([*chain.from_iterable(groups)])


def problem_gradients(
    module: TokenLogprobs,
    config: TrainConfig,
    groups: Sequence[Sequence[Rollout]],
    sketch: "CountSketch",
    chosen_C: np.ndarray,
    advance: Callable[[], None],
) -> tuple[np.ndarray, np.ndarray]:
    """The policy gradient of every problem by its rollouts' "loss_advantages".

    Sketched, [N, d], and at the coordinates `chosen_C`, [N, C]. g_n = N · ∇ agg(r_t A_t) over the
    rollouts of problem n, before clipping, KL and bonuses. With the sizes of all N problems, the
    mean of the g_n is the direction of one update. `advance` is called after each gradient.
    """
    device = next(module.parameters()).device
    totals = UpdateSizes.of([*chain.from_iterable(groups)], config.sampling.max_tokens).trained
    rows_ND = np.zeros((len(groups), sketch.size), np.float32)
    rows_NC = np.zeros((len(groups), len(chosen_C)), np.float32)
    chosen = torch.as_tensor(chosen_C, device=device)
    for n, group in enumerate(groups):
        cuts = ranks_share(list(map(len, group)), config.optimization.micro_batch_size)
        batches = [collate([group[i] for i in cut], device, COLUMNS) for cut in cuts]
        gradient_D = _gradient(module, config, batches, totals).mul_(len(groups))
        rows_ND[n], rows_NC[n] = sketch(gradient_D).cpu(), gradient_D[chosen].cpu()
        advance()
    return rows_ND, rows_NC


class CountSketch:
    """S: R^D → R^d with E⟨Sx, Sy⟩ = ⟨x, y⟩; `size` 0 keeps every coordinate.

    (Sx)_b = Σ_{j: h(j) = b} σ(j)·x_j with a random place h(j) and sign σ(j) for every coordinate,
    the same for all gradients. A squared norm is within √(2/d): 0.6 % at d = 65,536. Source:
    Charikar et al., 2002; Weinberger et al., 2009 (arXiv:0902.2206), appendix A.
    """

    def __init__(self, num_weights: int, size: int, seed: int, device: torch.device) -> None:
        self.size = size or num_weights
        self._places_D: torch.Tensor | None = None
        if size:
            generator = torch.Generator().manual_seed(seed)
            # A place of the upper half means the same place of the lower half, negated.
            shape = (num_weights,)
            places_D = torch.randint(2 * size, shape, generator=generator, dtype=torch.int32)
            self._places_D = places_D.to(device)

    def __call__(self, flat_D: torch.Tensor) -> torch.Tensor:
        """[d] of the gradient of a model's weights."""
        if self._places_D is None:
            return flat_D
        signed = flat_D.new_zeros(2 * self.size).index_add_(0, self._places_D, flat_D)
        return signed[: self.size] - signed[self.size :]


def inner_products(rows_ND: np.ndarray) -> np.ndarray:
    """⟨g_i, g_j⟩, [N, N], summed in double precision. Of (1, 0) and (1, 2): ((1, 1), (1, 5))."""
    products_NN = np.zeros((len(rows_ND), len(rows_ND)))
    for start in range(0, rows_ND.shape[1], CHUNK):
        part = rows_ND[:, start : start + CHUNK].astype(np.float64)
        products_NN += part @ part.T
    return products_NN


def _gradient(
    module: TokenLogprobs, config: TrainConfig, batches: Sequence[TrainBatch], totals: Totals
) -> torch.Tensor:
    """Σ over the micro-batches, of the weights in their order, [D]."""
    module.zero_grad()
    for batch in batches:
        is_trained_BT = batch["is_trained"]
        logprobs_BT = module(batch, ForwardOptions(config.sampling.temperature))["logprobs_BT"]
        ratio_BT = torch.exp((logprobs_BT - batch["old_logprobs"]) * is_trained_BT)
        gain_BT, kind = ratio_BT * batch["loss_advantages"], config.optimization.loss_aggregation
        aggregate(gain_BT, is_trained_BT, kind, totals).backward()
    return torch.cat(
        [
            (torch.zeros_like(weight) if weight.grad is None else weight.grad).flatten()
            for weight in module.parameters()
            if weight.requires_grad
        ]
    ).float()


def _saved(policies: Policies, checkpoint: Checkpoint, _: Journal) -> Source:
    """As training left them."""
    title = checkpoint.title
    if checkpoint.config.credit.shares_tokens:
        raise UserError(
            f"{title}: its rollouts share prefixes (credit.kind {checkpoint.config.credit.kind!r});"
            " --continuations K samples independent ones"
        )
    iteration = rollout_iteration(checkpoint.run_path, checkpoint.iteration)
    if iteration is None:
        raise UserError(
            f"{title}: its rollouts are not saved, nor are those of one update earlier; "
            "--continuations K samples them"
        )
    if iteration != checkpoint.iteration + 1:
        print(
            f"{title}: its own rollouts are not saved; taking those of one update earlier, with "
            "the ratio of the policies and without gae (--continuations K samples its own)"
        )
    rollouts = read_saved(checkpoint.run_path, iteration, policies.problem)
    return Source(iteration, groups_of(rollouts)[: checkpoint.settings["num_problems"]])


def _sampled(policies: Policies, checkpoint: Checkpoint, journal: Journal) -> Source:
    """The checkpoint's own rollouts, sampled where too few are saved, with fresh values."""
    config, iteration = checkpoint.config, checkpoint.iteration + 1
    number = checkpoint.settings["num_problems"] or config.rollouts.num_prompts
    policies.load(checkpoint.policy_path)
    groups: list[list[Rollout]] = []
    is_saved = rollout_iteration(checkpoint.run_path, checkpoint.iteration) == iteration
    if is_saved and not config.credit.shares_tokens:
        groups = groups_of(read_saved(checkpoint.run_path, iteration, policies.problem))
    if len(groups) < number:
        groups = groups_of(
            sample_rollouts(policies, checkpoint, next_prompts(policies, checkpoint, number), "")
        )
    source = Source(iteration, groups[:number])
    greedy_tokens = add_fresh_values(policies, checkpoint, source.rollouts, journal)
    return replace(source, greedy_tokens=greedy_tokens)


def _second_half(
    policies: Policies, checkpoint: Checkpoint, journal: Journal, first: Source
) -> Source:
    """As many rollouts of the same problems, with values of their own: independent of the first."""
    prompts = [policies.prompt(group[0].problem.id) for group in first.groups]
    rollouts = sample_rollouts(policies, checkpoint, prompts, HALVES[1])
    greedy_tokens = add_fresh_values(policies, checkpoint, rollouts, journal, HALVES[1])
    return Source(first.iteration, groups_of(rollouts), greedy_tokens)


def groups_by_estimator(
    policies: Policies, checkpoint: Checkpoint, source: Source, estimators: Sequence[Estimator],
    half: str,
) -> list[list[list[Rollout]]]:  # fmt: skip
    """The source's, or those that an estimator samples itself from the same problems."""
    prompts = [policies.prompt(group[0].problem.id) for group in source.groups]
    stream: tuple[int | str, ...] = (source.iteration, "trees", *stream_of(half))
    title = f"{checkpoint.title}, trees"

    def groups(credit: Credit) -> list[list[Rollout]]:
        if not credit.shares_tokens:
            return source.groups
        count = checkpoint.config.rollouts.num_samples
        return groups_of(sample_responses(policies.sampler, prompts, count, stream, title, credit))

    return [groups(estimator.credit) for estimator in estimators]


def stream_of(half: str) -> tuple[str, ...]:
    """The part of the seeds that only the second half has."""
    return (half,) if half else ()


def next_prompts(policies: Policies, checkpoint: Checkpoint, num_problems: int) -> list[Prompt]:
    """The next iteration's, if the run has `num_problems` an iteration."""
    prompts = list(policies.train_by_id.values())
    count = min(num_problems, len(prompts))
    seed, iteration = checkpoint.config.seed, checkpoint.iteration + 1
    return [prompts[i] for i in problems_of_iteration(len(prompts), count, iteration, seed)]


def sample_rollouts(
    policies: Policies, checkpoint: Checkpoint, prompts: Sequence[Prompt], half: str
) -> list[Rollout]:
    """Rollouts of the engine's policy; the random streams are the analysis's, one for each half."""
    config, iteration = checkpoint.config, checkpoint.iteration + 1
    rollouts = sample_responses(
        policies.sampler, prompts, config.rollouts.num_samples,
        (iteration, "rollouts", *stream_of(half)), f"{checkpoint.title}, rollouts",
    )  # fmt: skip
    if config.reads_entropies:
        add_entropies(policies, checkpoint, rollouts)
    segmenter = config.credit.segmenter
    for rollout in rollouts:
        rollout.spans_S = steps_of(rollout, segmenter, policies.sampler.tokenizer)
    return rollouts
