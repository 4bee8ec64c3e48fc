"""Values that learn from rewards which of the policy's choices led to them.

At tokens where the policy was in doubt, the passes that are made anyway record what it chose from
(`Choices`), hidden states included. A small model of them says by how much a choice changed the
value. It is fitted to nothing but the rewards of earlier rollouts. Its differences are centred
under the policy, so the values are a martingale however badly they are fitted: what
`recipes/martingale.py` asks for.
"""

import itertools
import math
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vineppo.config.schema import (
    Count,
    Name,
    NonNegative,
    PositiveFraction,
    PredictorConfig,
    TrainConfig,
    sampled_by,
)
from vineppo.errors import naming
from vineppo.models import LoadedModel, load_tokenizer
from vineppo.tasks.data_text import as_text, encode
from vineppo.types import Problem, Rollout, derive_seed
from vineppo.values import ValuePredictor

if TYPE_CHECKING:
    from vineppo.rollouts import Prompt
    from vineppo.token_scores import TokenScores

FIRST_STEPS = 8  # times as many steps of Adam, without rewards, come before the first with them
AVERAGE = 0.98  # of the weights over the steps of Adam, whose average values the states
REWARD_MEMORY = 0.8  # of the running mean reward, an iteration
EVIDENCE_MEMORY = 0.9  # of how well the differences foretold the rewards
PRIOR_REWARD = 0.5  # before the first
SURE = 0.99  # the probability from which on a token counts as no choice


@dataclass(frozen=True)
class Choices:
    """The policy's choices at the U tokens of a response where it was in doubt.

    `positions_U` are the tokens' places in the response and `steps_U` their steps, from 0. `ids_UK`
    are the likeliest token ids there, with the tempered policy's log-probabilities `logprobs_UK`
    (nats); `chosen_U` is the sampled token's place among them, or −1. `hidden_UH` are the last
    hidden states before the tokens, `root_H` before the response.
    """

    positions_U: np.ndarray
    ids_UK: np.ndarray
    logprobs_UK: np.ndarray
    chosen_U: np.ndarray
    steps_U: np.ndarray
    hidden_UH: np.ndarray
    root_H: np.ndarray


def choices_of(scores: "TokenScores", rollouts: Sequence[Rollout]) -> list[Choices]:
    """The tokens of every rollout where the likeliest candidate had less than `SURE`."""
    logprobs_BTK, ids_BTK = scores.candidate_logprobs_BTK, scores.candidate_ids_BTK
    assert scores.hidden_BTH is not None, "asked for"
    assert logprobs_BTK is not None, "asked for"
    assert ids_BTK is not None, "asked for"
    found = []
    for b, rollout in enumerate(rollouts):
        response = slice(len(rollout.prompt_ids), len(rollout))
        logprobs_TK = logprobs_BTK[b, response]
        places_U = (logprobs_TK[:, 0] < math.log(SURE)).nonzero()[:, 0]
        ids_UK = ids_BTK[b, response][places_U].cpu().numpy()
        positions_U = places_U.cpu().numpy()
        is_chosen_UK = ids_UK == np.array(rollout.response_ids, np.int64)[positions_U, None]
        hidden_TH = scores.hidden_BTH[b, response]
        starts_S = [span.start for span in rollout.spans_S]
        found.append(
            Choices(
                positions_U=positions_U,
                ids_UK=ids_UK.astype(np.int32),
                logprobs_UK=logprobs_TK[places_U].float().cpu().numpy(),
                chosen_U=np.where(is_chosen_UK.any(1), is_chosen_UK.argmax(1), -1),
                steps_U=np.searchsorted(starts_S, positions_U, side="right") - 1,
                hidden_UH=hidden_TH[places_U].half().cpu().numpy(),
                root_H=hidden_TH[0].half().cpu().numpy(),
            )
        )
    return found


class ChoiceModel(nn.Module):
    """How the value changes with the policy's choices."""

    scale_H: torch.Tensor  # of the hidden states, 0 until it is measured
    root_H: torch.Tensor  # mean of the hidden states of the prompts' ends

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.register_buffer("scale_H", torch.zeros(hidden_size))
        self.register_buffer("root_H", torch.zeros(hidden_size))

    def measure(self, hidden_NH: torch.Tensor, roots_NH: torch.Tensor) -> None:
        """Where the hidden states lie."""
        self.scale_H.copy_(1 / hidden_NH.std(0, correction=0).clamp(min=1e-2))
        self.root_H.copy_(roots_NH.mean(0))

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:  # noqa: ARG002
        """As `torch.optim.AdamW` takes them."""
        return [{"params": list(self.parameters())}]

    @abstractmethod
    def values(self, batch: "ChoiceBatch") -> tuple[torch.Tensor, torch.Tensor]:
        """Values of the roots [B], and what each choice changed, of mean 0 under π, [B, U]."""

    @abstractmethod
    def losses(self, batch: "ChoiceBatch", rewards_BU: torch.Tensor) -> torch.Tensor:
        """The cross-entropy of a reward and the value after every choice, [B, U].

        After its last choice a rollout's value stays, so that the padding repeats it.
        """

    def loss_without_rewards(self, batch: "ChoiceBatch") -> torch.Tensor:  # noqa: ARG002
        """A scalar loss of the choices alone."""
        return torch.zeros(())


@dataclass(frozen=True)
class ChoiceBatch:
    """Choices of B rollouts, padded; L = K + 1 with what the candidates leave as the last.

    `rewards_B` are the mean rewards of the times when they were sampled.
    """

    ids_BUK: torch.Tensor
    logprobs_BUL: torch.Tensor
    chosen_BU: torch.Tensor
    is_there_BU: torch.Tensor
    hidden_BUH: torch.Tensor
    steps_BU: torch.Tensor
    root_BH: torch.Tensor
    rewards_B: torch.Tensor
    answers_BR: torch.Tensor  # the true answers' first tokens, then −1
    groups_B: torch.Tensor  # the problem's place among the batch's

    @classmethod
    def of(cls, samples_B: Sequence["Sample"], device: torch.device) -> "ChoiceBatch":
        choices_B = [sample.choices for sample in samples_B]
        counts_B = [len(choices.positions_U) for choices in choices_B]
        num_candidates = choices_B[0].ids_UK.shape[1]
        shape = len(choices_B), max(1, *counts_B)
        is_there_BU = np.arange(shape[1]) < np.array(counts_B)[:, None]

        def placed(name: str, *more: int, dtype: type = np.float32) -> torch.Tensor:
            full: np.ndarray = np.zeros((*shape, *more), dtype)
            full[is_there_BU] = np.concatenate([getattr(c, name) for c in choices_B])
            return torch.from_numpy(full).to(device)

        logprobs_BUK = placed("logprobs_UK", num_candidates)
        others_BU1 = (1 - logprobs_BUK.exp().sum(-1, keepdim=True)).clamp(min=1e-30).log()
        chosen_BU = placed("chosen_U", dtype=np.int64)
        return cls(
            ids_BUK=placed("ids_UK", num_candidates, dtype=np.int64),
            logprobs_BUL=torch.cat([logprobs_BUK, others_BU1], -1),
            chosen_BU=torch.where(chosen_BU < 0, num_candidates, chosen_BU),
            is_there_BU=torch.from_numpy(is_there_BU).to(device),
            hidden_BUH=placed("hidden_UH", choices_B[0].hidden_UH.shape[1]),
            steps_BU=placed("steps_U", dtype=np.int64).cummax(1).values,  # padding: the last
            root_BH=torch.from_numpy(np.stack([c.root_H for c in choices_B])).float().to(device),
            rewards_B=torch.tensor([sample.mean_reward for sample in samples_B], device=device),
            answers_BR=torch.from_numpy(_padded([s.answer_R for s in samples_B])).to(device),
            groups_B=torch.tensor(_numbered([s.group for s in samples_B]), device=device),
        )

    def of_chosen(self, numbers_BUL: torch.Tensor) -> torch.Tensor:
        """The numbers of the tokens that were taken, 0 in the padding, [B, U]."""
        return numbers_BUL.gather(-1, self.chosen_BU[..., None])[..., 0] * self.is_there_BU

    def of_the_others(self, numbers_BN: torch.Tensor) -> torch.Tensor:
        """Mean over the other rollouts of the problem, those of the batch where there is none."""
        is_other_BB = self.groups_B[:, None] == self.groups_B
        is_other_BB = is_other_BB.float().fill_diagonal_(0)
        is_alone_B1 = is_other_BB.sum(-1, keepdim=True) == 0
        anyone_BB = torch.ones_like(is_other_BB).fill_diagonal_(0)
        weights_BB = torch.where(is_alone_B1, anyone_BB, is_other_BB)
        return weights_BB @ numbers_BN / weights_BB.sum(-1, keepdim=True).clamp(min=1)

    def centred(self, numbers_BUL: torch.Tensor) -> torch.Tensor:
        """Less their mean under the policy, [B, U, L]."""
        return numbers_BUL - (self.logprobs_BUL.exp() * numbers_BUL).sum(-1, keepdim=True)


@dataclass(frozen=True)
class Sample:
    """A rollout as it is kept for learning and valued."""

    choices: Choices
    answer_R: tuple[int, ...]  # none where it is not looked at
    group: str  # the problem
    mean_reward: float
    reward: float
    returns_N: tuple[tuple[int, float, int], ...] = ()  # choices so far, the mean of K, and K


class LearnedFromChoices(ValuePredictor):
    """V(s_t) = V(s_0) + Σ_{u<t} c Δ_u, E[Δ_u | s_u] = 0, Δ and V(s_0) by a `ChoiceModel`.

    The values of an iteration's rollouts are those before it learns from them, so that a baseline
    never holds a rollout's own return. Rewards must lie in [0, 1]; exact where `sampling.top_p` is
    1.

    It learns by the cross-entropy between the value after every choice and the reward. It takes the
    rollouts of the last `replay_iterations` iterations, each with the distributions that it was
    sampled from. It keeps each rollout's choices (`SURE`) with their hidden states: U·(H + 2K)
    numbers. With `learns_from`, a continuation counts as one more rollout that ends at its state,
    where its return is the reward.
    """

    reads_answer: ClassVar[bool] = False  # the model looks at the true answer
    learns_alone: ClassVar[bool] = False  # the model has a loss without rewards
    learns_by_problem: ClassVar[bool] = False  # from a problem's rollouts together
    doubt: ClassVar[float] = 0.02  # a variance of the differences that says nothing, seen once

    gives = "tokens"
    is_martingale = True
    is_probability = True
    training_only = ("model", "adam", "replay")

    @dataclass(frozen=True, kw_only=True)
    class Config(PredictorConfig):
        num_candidates: Count = 32  # tokens a place, the likeliest; all others count as one
        learning_rate: PositiveFraction = 3e-3
        weight_decay: NonNegative = 0.05
        num_steps: Count = 16  # of Adam, an iteration
        batch_size: Count = 32  # rollouts a step
        replay_iterations: Count = 64  # whose rollouts it learns from
        learns_from: Name | None = None  # a predictor's continuations; null: rewards alone

        @property
        def returns_of(self) -> str | None:
            return self.learns_from

        def check(self, key: str, config: TrainConfig) -> None:
            if self.learns_from is not None:
                sampled_by(f"{key}.learns_from", self.learns_from, config)

    def __init__(
        self, name: str, config: TrainConfig, options: Any, loaded: LoadedModel | None = None
    ) -> None:
        super().__init__(name, config, options)
        self.num_candidates = options.num_candidates
        self._model: ChoiceModel | None = None
        self._mean_reward: float | None = None
        self._evidence = 0.0, self.doubt  # running covariance of differences and reward; variance
        self._replay: deque[list[Sample]] = deque(maxlen=options.replay_iterations)
        self._device = torch.device("cpu")
        self._tokenizer: Any = None
        if loaded is not None:
            self._tokenizer = loaded.tokenizer
            self._build(loaded.model.config.hidden_size, loaded.engine_model.num_token_ids)

    def choices_of(self, scores: "TokenScores", rollouts: Sequence[Rollout]) -> list[Choices]:
        return choices_of(scores, rollouts)

    @abstractmethod
    def new_model(self, hidden_size: int, num_token_ids: int) -> ChoiceModel:
        """One that says nothing yet."""

    def _build(self, hidden_size: int, num_token_ids: int) -> None:
        options = self.options
        self._sizes = hidden_size, num_token_ids
        self._model = self.new_model(*self._sizes).to(self._device)
        self._adam = torch.optim.AdamW(
            self._model.parameter_groups(options.learning_rate),
            lr=options.learning_rate,
            weight_decay=options.weight_decay,
        )
        average = get_ema_multi_avg_fn(AVERAGE)
        self._averaged = AveragedModel(self._model, multi_avg_fn=average, use_buffers=True)

    @property
    def _coefficient(self) -> float:
        """c = Cov(ΣΔ, R)/Var(ΣΔ) in earlier iterations, before these were learnt from.

        The best coefficient of a control variate (Glasserman 2003, section 4.1), within [0.1, 1]:
        at 0 nothing would be heard of the differences any more. c·M is a martingale too.
        """
        covariance, variance = self._evidence
        return min(max(covariance / variance, 0.1), 1.0)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> ValuePredictor | None:
        predictor = super().at_checkpoint(name, config, options, directory)
        if isinstance(predictor, cls) and directory is not None and cls.reads_answer:
            predictor._tokenizer = load_tokenizer(str(directory / "policy"), "model.path")
        return predictor

    def start(self, policy: Any) -> None:
        self._device = policy.device
        assert self._model is not None, "made with the model"
        self._build(*self._sizes)

    @torch.no_grad()
    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        """Sets "values/NAME", and "differences/NAME": what each token changed."""
        prior = PRIOR_REWARD if self._mean_reward is None else self._mean_reward
        samples_B = [self._sample(rollout, prior) for rollout in rollouts]
        batch = ChoiceBatch.of(samples_B, self._device)
        if self._model is None:  # as training starts
            roots_B, differences_BU = batch.rewards_B, torch.zeros_like(batch.hidden_BUH[..., 0])
        else:
            averaged: Any = self._averaged.module
            roots_B, differences_BU = averaged.values(batch)
            differences_BU = self._coefficient * differences_BU
        differences = (differences_BU * batch.is_there_BU).double().cpu().numpy()
        values = []
        for b, rollout in enumerate(rollouts):
            positions_U = samples_B[b].choices.positions_U
            differences_T = np.zeros(len(rollout.response_ids))
            differences_T[positions_U] = differences[b, : len(positions_U)]
            rollout.tokens_T[f"differences/{self.name}"] = tuple(differences_T.tolist())
            before_T = np.cumsum(differences_T) - differences_T
            values.append((float(roots_B[b]) + before_T).tolist())
        self.set_values(rollouts, values)

    def estimate_after(self, rollouts: Sequence[Rollout]) -> None:
        """Adds the known change of the last token."""
        for rollout in rollouts:
            change = rollout.tokens_T[f"differences/{self.name}"][-1]
            rollout.values_after[self.name] = rollout.values_T(self.name)[-1] + change

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:
        """Some steps of Adam on rollouts drawn from the replay.

        One with a gradient that is not finite is skipped and counted, and leaves no trace.
        """
        assert self._model is not None, "made with the model"
        options, mean = self.options, sum(rollout.reward for rollout in rollouts) / len(rollouts)
        self._weigh(rollouts)  # by the values that they were given before
        before = mean if self._mean_reward is None else self._mean_reward
        self._mean_reward = max(REWARD_MEMORY * before + (1 - REWARD_MEMORY) * mean, 1e-3)
        self._replay.append([self._sample(rollout, self._mean_reward) for rollout in rollouts])
        samples = [sample for samples in self._replay for sample in samples]
        group_of = (lambda sample: sample.group) if self.learns_by_problem else id
        groups = [
            list(group)
            for samples in self._replay
            for _, group in itertools.groupby(samples, key=group_of)
        ]
        if not self._model.scale_H.any():
            hidden_NH = np.concatenate([rollout.choices.hidden_UH for rollout in rollouts])
            roots_NH = np.stack([sample.choices.root_H for sample in samples])
            self._model.measure(
                *(torch.from_numpy(h).float().to(self._device) for h in (hidden_NH, roots_NH))
            )
        draw = np.random.default_rng(derive_seed(self.config.seed, iteration, self.column))
        losses, num_skipped = [], 0
        is_first = self.learns_alone and len(self._replay) == 1
        num_first = FIRST_STEPS * options.num_steps if is_first else 0
        for step in range(num_first + options.num_steps):
            order = (sample for i in draw.permutation(len(groups)) for sample in groups[i])
            batch = list(itertools.islice(order, options.batch_size))
            loss = self._loss(batch, of_rewards=step >= num_first)
            self._adam.zero_grad()
            loss.backward()
            norms = [w.grad.norm() for w in self._model.parameters() if w.grad is not None]
            if not torch.stack([loss.detach(), *norms]).isfinite().all():
                num_skipped += 1
                continue
            self._adam.step()
            losses.append(loss.item())
            self._averaged.update_parameters(self._model)
        return {
            f"{self.metrics_group}/loss": sum(losses) / max(len(losses), 1),
            f"{self.metrics_group}/skipped_updates": num_skipped,
        }

    def _sample(self, rollout: Rollout, mean_reward: float) -> Sample:
        answer_R = self._answer_ids(rollout.problem)
        assert rollout.choices is not None, "set by the policy's pass"
        choices = self.told_apart(rollout.choices, answer_R)
        states_S = rollout.returns_S.get(self.options.learns_from, ())
        places_S = np.searchsorted(choices.positions_U, [s.start for s in rollout.spans_S])
        returns_N = tuple(
            (int(place), state.mean, len(state.returns_K))
            for place, state in zip(places_S, states_S, strict=False)
            if place and state.returns_K  # at the root nothing is chosen
        )
        of_problem = answer_R, rollout.problem.id
        return Sample(choices, *of_problem, mean_reward, rollout.reward, returns_N)

    def check_problems(self, prompts_P: Sequence["Prompt"]) -> None:
        for prompt in prompts_P:
            self._answer_ids(prompt.problem)

    def _answer_ids(self, problem: Problem) -> tuple[int, ...]:
        if not self.reads_answer or self._tokenizer is None:
            return ()
        with naming(f"problem {problem.id}"):
            return encode(self._tokenizer, as_text(self._tokenizer, problem.answer))

    def told_apart(self, choices: Choices, answer_R: tuple[int, ...]) -> Choices:  # noqa: ARG002
        """The choices that the model may value; the chosen tokens do not decide this."""
        return choices

    def _weigh(self, rollouts: Sequence[Rollout]) -> None:
        name, coefficient = f"differences/{self.name}", self._coefficient
        totals_N = np.array([math.fsum(r.tokens_T[name]) for r in rollouts]) / coefficient
        rewards_N = np.array([rollout.reward for rollout in rollouts])
        new = np.mean((totals_N - totals_N.mean()) * rewards_N), np.var(totals_N)
        if not np.isfinite(new).all():
            return
        covariance, variance = (
            EVIDENCE_MEMORY * old + (1 - EVIDENCE_MEMORY) * float(add)
            for old, add in zip(self._evidence, new, strict=True)
        )
        self._evidence = covariance, variance

    def _loss(self, samples: Sequence[Sample], of_rewards: bool) -> torch.Tensor:
        """The cross-entropy of the reward after the last choice, and half its mean after all.

        That of continuations' returns before their states joins it.
        """
        assert self._model is not None, "made with the model"
        batch = ChoiceBatch.of(samples, self._device)
        loss = self._model.loss_without_rewards(batch)
        if of_rewards:
            rewards_B = torch.tensor([sample.reward for sample in samples], device=self._device)
            rewards_BU = rewards_B[:, None].expand(batch.is_there_BU.shape)
            losses_BU = self._model.losses(batch, rewards_BU)
            loss = loss + losses_BU[:, -1].mean() + 0.5 * losses_BU.mean()
            returns_BU, weights_BU = torch.zeros_like(losses_BU), torch.zeros_like(losses_BU)
            for b, sample in enumerate(samples):
                for place, mean, number in sample.returns_N:
                    returns_BU[b, place - 1], weights_BU[b, place - 1] = mean, number
            if weights_BU.any():
                losses_BU = self._model.losses(batch, returns_BU)
                loss = loss + (weights_BU * losses_BU).sum() / len(samples)
        return loss

    def state(self) -> dict[str, Any]:
        running = [self._mean_reward, *self._evidence]
        if self._model is None:
            return {"running": running}
        return {
            "sizes": self._sizes,
            "running": running,
            "averaged": self._averaged.state_dict(),
            "model": self._model.state_dict(),
            "adam": self._adam.state_dict(),
            "replay": [[_tensors(sample) for sample in samples] for samples in self._replay],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._mean_reward, *evidence = state["running"]
        self._evidence = evidence[0], evidence[1]
        if self._model is None:
            self._build(*state["sizes"])
        self._averaged.load_state_dict(state["averaged"])
        if self.is_frozen:
            return
        assert self._model is not None, "made with the policy"
        self._model.load_state_dict(state["model"])
        self._adam.load_state_dict(state["adam"])
        self._replay.extend([_sample(*row) for row in rows] for rows in state["replay"])


def _numbered(names: Sequence[str]) -> list[int]:
    """Each name's place among the different ones."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return [places[name] for name in names]


def _padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """By −1 to the longest."""
    full = np.full((len(rows), max(1, *map(len, rows)) if rows else 1), -1)
    for row, numbers in zip(full, rows, strict=True):
        row[: len(numbers)] = numbers
    return full


def _tensors(sample: Sample) -> list[Any]:
    arrays = [torch.from_numpy(getattr(sample.choices, field.name)) for field in fields(Choices)]
    rewards = sample.mean_reward, sample.reward, sample.returns_N
    return [*arrays, sample.answer_R, sample.group, *rewards]


def _sample(*row: Any) -> Sample:
    """The sample of a row of `_tensors`; older rows end with the reward."""
    tensors, (answer_R, *others) = row[: len(fields(Choices))], row[len(fields(Choices)) :]
    choices = Choices(*(tensor.cpu().numpy() for tensor in tensors))
    return Sample(choices, tuple(answer_R), *others)
