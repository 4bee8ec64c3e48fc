"""Values as products of probability ratios: how the policy would choose, had it been successful.

By Bayes' rule the value of a 0/1 reward grows with every token by one factor,

    V(s_{t+1}) / V(s_t) = π(a_t | s_t, success) / π(a_t | s_t) = ρ_t

so that a small model of the *posterior policy* π(· | s, success) is a value of every state. It is
fitted to nothing but the rewards of earlier rollouts, and where the policy is sure of a token it
can say nothing: values change only where something was decided. And as Σ_a π(a) ρ(a) = 1, they are
a martingale under the policy, however badly they are fitted: what `credit/martingale.py` asks for.
"""

import json
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from vineppo.config.schema import PosteriorValues, TrainConfig
from vineppo.distributed import is_main
from vineppo.seeds import derive_seed
from vineppo.types import Choices, Rollout
from vineppo.values.predictor import ValuePredictor

WEIGHTS = "model.safetensors"
MOST_DENSE = 4096  # tokens, up to which all are scored and not the candidates alone
MOST = 0.98  # the largest value in the loss, where 1 would be lost at once
AVERAGE = 0.98  # of the weights over the steps of Adam, whose average values the states
REWARD_MEMORY = 0.8  # of the running mean reward, an iteration
EVIDENCE_MEMORY = 0.9  # of how well the differences foretold the rewards
DOUBT = 0.02  # a variance of the differences that says nothing, as if seen once
PRIOR_REWARD = 0.5  # before the first


class Tilt(nn.Module):
    """log π(a | s, success) − log π(a | s) + const = e_aᵀ relu(W h + b), and log V of the root.

    e starts at 0: no token says anything, and the value is the mean reward everywhere.
    """

    scale_H: torch.Tensor  # of the hidden states, 0 until it is measured
    root_H: torch.Tensor  # mean of the hidden states of the prompts' ends

    def __init__(self, hidden_size: int, num_token_ids: int, size: int, seed: int) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden_size, size)
        self.tokens = nn.Embedding(num_token_ids, size)
        self.root = nn.Linear(hidden_size, 1, bias=False)
        self.register_buffer("scale_H", torch.zeros(hidden_size))
        self.register_buffer("root_H", torch.zeros(hidden_size))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            bound = hidden_size**-0.5
            self.inner.weight.uniform_(-bound, bound, generator=generator)
            self.inner.bias.zero_()
            self.tokens.weight.zero_()
            self.root.weight.zero_()

    def measure(self, hidden_NH: torch.Tensor, roots_NH: torch.Tensor) -> None:
        """Where the hidden states lie, once."""
        if not self.scale_H.any():
            self.scale_H.copy_(1 / hidden_NH.std(0, correction=0).clamp(min=1e-2))
            self.root_H.copy_(roots_NH.mean(0))

    def log_ratios(self, batch: "_Batch") -> torch.Tensor:
        """log ρ of the K candidates and, last, of any other token, [B, U, K + 1].

        log ρ(a) = r(a) − log Σ_a' π(a') e^{r(a')}, with r = 0 for the tokens that are no candidate.
        """
        hidden_BUC = torch.relu(self.inner(batch.hidden_BUH * self.scale_H))
        if self.tokens.num_embeddings <= MOST_DENSE:
            scores_BUK = (hidden_BUC @ self.tokens.weight.T).gather(-1, batch.ids_BUK)
        else:
            scores_BUK = torch.einsum("buc,bukc->buk", hidden_BUC, self.tokens(batch.ids_BUK))
        scores = nn.functional.pad(scores_BUK, (0, 1))
        norm_BU1 = torch.logsumexp(batch.logprobs_BUL + scores, -1, keepdim=True)
        return scores - norm_BU1

    def log_roots(self, batch: "_Batch") -> torch.Tensor:
        """log V(s_0) = log(mean reward) + wᵀ(h − mean h)/√H, at most log `MOST`, [B].

        What all prompts have in common would move them all, H weights at a time.
        """
        centred_BH = (batch.root_BH - self.root_H) * self.scale_H
        tilt_B = self.root(centred_BH).squeeze(-1) / math.sqrt(len(self.root_H))
        return (torch.log(batch.rewards_B) + tilt_B).clamp(max=math.log(MOST))


@dataclass(frozen=True)
class _Batch:
    """Choices of B rollouts, padded; L = K + 1 with what the candidates leave as the last.

    `rewards_B` are the mean rewards of the times at which they were sampled.
    """

    ids_BUK: torch.Tensor
    logprobs_BUL: torch.Tensor
    chosen_BU: torch.Tensor
    is_there_BU: torch.Tensor
    hidden_BUH: torch.Tensor
    root_BH: torch.Tensor
    rewards_B: torch.Tensor

    @classmethod
    def of(
        cls, choices_B: Sequence[Choices], mean_rewards_B: Sequence[float], device: torch.device
    ) -> "_Batch":
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
            root_BH=torch.from_numpy(np.stack([c.root_H for c in choices_B])).float().to(device),
            rewards_B=torch.tensor(mean_rewards_B, device=device),
        )


@dataclass(frozen=True)
class _Sample:
    """What is kept of a rollout to learn from."""

    choices: Choices
    mean_reward: float
    reward: float


class Posterior(ValuePredictor):
    """V(s_t) = V(s_0) + Σ_{u<t} Δ_u, Δ_u = q(a_u) − Σ_a π(a|s_u) q(a), q(a) = min(1, V(s_u) ρ(a)).

    Without the bound these are the products of ratios; with it, too, E[Δ_u | s_u] = 0. The values
    of an iteration's rollouts are those before it learns from them, so that a baseline never holds
    a rollout's own return. Rewards must lie in [0, 1]; exact where `sampling.top_p` is 1.

    It learns by the cross-entropy between V after every choice and the reward, of the rollouts of
    the last `replay_iterations` iterations, each with the distributions that it was sampled from.
    Of each rollout it keeps the choices (`SURE`) with their hidden states: U·(H + 2K) numbers.

    Source: implicit process rewards (arXiv:2412.01981) read a reward as a sum of log-ratios of
    whole models; here the ratios are of values, their model is a layer on the policy's own states,
    and the differences are used as a control variate.
    """

    gives = "tokens"

    def __init__(self, name: str, config: TrainConfig, own: PosteriorValues, *loaded: Any) -> None:
        super().__init__(name, config)
        self.num_candidates = own.num_candidates
        self._own = own
        self._tilt: Tilt | None = None
        self._mean_reward: float | None = None
        self._evidence = 0.0, DOUBT  # running covariance of differences and reward, and variance
        self._replay: deque[list[_Sample]] = deque(maxlen=own.replay_iterations)
        self._device = torch.device("cpu")
        if loaded:
            model = loaded[0]
            self._build(model.model.config.hidden_size, model.engine_model.num_token_ids)

    def _build(self, hidden_size: int, num_token_ids: int) -> None:
        own, seed = self._own, derive_seed(self.config.seed, self.column)
        self._tilt = Tilt(hidden_size, num_token_ids, own.size, seed).to(self._device)
        self._adam = torch.optim.AdamW(
            self._tilt.parameters(), lr=own.learning_rate, weight_decay=own.weight_decay
        )
        average = get_ema_multi_avg_fn(AVERAGE)
        self._averaged = AveragedModel(self._tilt, multi_avg_fn=average, use_buffers=True)

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
        cls, name: str, config: TrainConfig, own: PosteriorValues, directory: Path | None
    ) -> "Posterior | None":
        predictor = cls(name, config, own)
        if directory is not None:
            if not (directory / name).is_dir():
                return None
            predictor._load_hf(directory / name)
        return predictor

    def start(self, policy: Any) -> None:
        self._device = policy.device
        assert self._tilt is not None, "made with the model"
        self._build(self._tilt.root.in_features, self._tilt.tokens.num_embeddings)

    @torch.no_grad()
    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        """Sets "values/NAME", and "differences/NAME": what each token changed."""
        choices_B = [rollout.choices for rollout in rollouts]
        prior = PRIOR_REWARD if self._mean_reward is None else self._mean_reward
        batch = _Batch.of(choices_B, [prior] * len(rollouts), self._device)  # type: ignore[arg-type]
        if self._tilt is None:  # as training starts
            roots_B, differences_BU = batch.rewards_B, torch.zeros_like(batch.hidden_BUH[..., 0])
        else:
            tilt: Any = self._averaged.module
            roots_B = tilt.log_roots(batch).exp()
            differences_BU = self._coefficient * bounded_differences(
                roots_B, tilt.log_ratios(batch), batch.logprobs_BUL, batch.chosen_BU
            )
        differences = (differences_BU * batch.is_there_BU).double().cpu().numpy()
        values = []
        for b, rollout in enumerate(rollouts):
            positions_U = choices_B[b].positions_U  # type: ignore[union-attr]
            differences_T = np.zeros(len(rollout.response_ids))
            differences_T[positions_U] = differences[b, : len(positions_U)]
            rollout.tokens_T[f"differences/{self.name}"] = tuple(differences_T.tolist())
            before_T = np.cumsum(differences_T) - differences_T
            values.append((float(roots_B[b]) + before_T).tolist())
        self.set_values(rollouts, values)

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:
        """Some steps of Adam on rollouts drawn from the replay."""
        assert self._tilt is not None, "made with the model"
        own, mean = self._own, sum(rollout.reward for rollout in rollouts) / len(rollouts)
        self._weigh(rollouts)  # by the values that they were given before
        before = mean if self._mean_reward is None else self._mean_reward
        self._mean_reward = max(REWARD_MEMORY * before + (1 - REWARD_MEMORY) * mean, 1e-3)
        self._replay.append(
            [_Sample(r.choices, self._mean_reward, r.reward) for r in rollouts if r.choices]
        )
        samples = [sample for samples in self._replay for sample in samples]
        hidden_NH = np.concatenate([sample.choices.hidden_UH for sample in samples])
        roots_NH = np.stack([sample.choices.root_H for sample in samples])
        self._tilt.measure(
            *(torch.from_numpy(h).float().to(self._device) for h in (hidden_NH, roots_NH))
        )
        draw = np.random.default_rng(derive_seed(self.config.seed, iteration, self.column))
        losses = []
        for _ in range(own.num_steps):
            chosen = draw.choice(len(samples), min(own.batch_size, len(samples)), replace=False)
            loss = self._loss([samples[i] for i in chosen])
            self._adam.zero_grad()
            loss.backward()
            self._adam.step()
            losses.append(loss.item())
            self._averaged.update_parameters(self._tilt)
        return {f"{self.metrics_group}/loss": sum(losses) / max(len(losses), 1)}

    def _weigh(self, rollouts: Sequence[Rollout]) -> None:
        name, coefficient = f"differences/{self.name}", self._coefficient
        totals_N = np.array([math.fsum(r.tokens_T[name]) for r in rollouts]) / coefficient
        rewards_N = np.array([rollout.reward for rollout in rollouts])
        new = np.mean((totals_N - totals_N.mean()) * rewards_N), np.var(totals_N)
        covariance, variance = (
            EVIDENCE_MEMORY * old + (1 - EVIDENCE_MEMORY) * float(add)
            for old, add in zip(self._evidence, new, strict=True)
        )
        self._evidence = covariance, variance

    def _loss(self, samples: Sequence[_Sample]) -> torch.Tensor:
        """The cross-entropy of the reward after the last choice, and half its mean after all."""
        assert self._tilt is not None, "made with the model"
        batch = _Batch.of(
            [s.choices for s in samples], [s.mean_reward for s in samples], self._device
        )
        rewards_B1 = torch.tensor([[s.reward] for s in samples], device=self._device)
        ratios_BUL = self._tilt.log_ratios(batch)
        taken_BU = ratios_BUL.gather(-1, batch.chosen_BU[..., None])[..., 0] * batch.is_there_BU
        log_values_BU = self._tilt.log_roots(batch)[:, None] + taken_BU.cumsum(-1)
        # Above the bound the value is the bound's, with the gradient that leads below it.
        bound_BU = log_values_BU.clamp(max=math.log(MOST))
        log_values_BU = log_values_BU + (bound_BU - log_values_BU).detach()
        losses_BU = -(
            rewards_B1 * log_values_BU + (1 - rewards_B1) * torch.log1p(-log_values_BU.exp())
        )
        # After its last choice a rollout's value stays, so that the padding repeats it.
        return losses_BU[:, -1].mean() + 0.5 * losses_BU.mean()

    def save_hf(self, directory: Path) -> None:
        """What it takes to value states: model.safetensors, with the running numbers beside."""
        if is_main():
            directory.mkdir(parents=True, exist_ok=True)
            weights = self._averaged.module.state_dict()
            metadata = {"running": json.dumps([self._mean_reward, *self._evidence])}
            save_file(weights, directory / WEIGHTS, metadata)

    def _load_hf(self, directory: Path) -> None:
        with safe_open(directory / WEIGHTS, "pt") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self._mean_reward, *evidence = json.loads(file.metadata()["running"])
        self._evidence = evidence[0], evidence[1]
        self._build(weights["inner.weight"].shape[1], weights["tokens.weight"].shape[0])
        self._averaged.module.load_state_dict(weights)

    def save_state(self, directory: Path) -> None:
        """All that learning goes on with, the replay included."""
        assert self._tilt is not None, "made with the model"
        if is_main():
            directory.mkdir(parents=True, exist_ok=True)
            state = {
                "tilt": self._tilt.state_dict(),
                "averaged": self._averaged.state_dict(),
                "adam": self._adam.state_dict(),
                "running": [self._mean_reward, *self._evidence],
                "replay": [[_tensors(sample) for sample in samples] for samples in self._replay],
            }
            torch.save(state, directory / "posterior.pt")

    def load_state(self, directory: Path) -> None:
        assert self._tilt is not None, "made with the model"
        path = directory / "posterior.pt"
        state = torch.load(path, map_location=self._device, weights_only=True)
        self._tilt.load_state_dict(state["tilt"])
        self._averaged.load_state_dict(state["averaged"])
        self._adam.load_state_dict(state["adam"])
        self._mean_reward, covariance, variance = state["running"]
        self._evidence = covariance, variance
        self._replay.extend([_sample(*row) for row in rows] for rows in state["replay"])


def bounded_differences(
    roots_B: torch.Tensor,
    log_ratios_BUL: torch.Tensor,
    logprobs_BUL: torch.Tensor,
    chosen_BU: torch.Tensor,
) -> torch.Tensor:
    """Δ = q(a) − Σ_a' π(a') q(a') of every choice, [B, U], with q(a) = min(1, V ρ(a)).

    V is the root's value and the Δ so far, within [0, 1]. Root 0.5, π = (0.5, 0.5), ρ = (2, 0): the
    first adds 0.5 and the second takes it; of ρ = (1.5, 0.5) they are ±0.25.
    """
    ratios_BUL, probs_BUL = log_ratios_BUL.exp(), logprobs_BUL.exp()
    values_B = roots_B
    differences = []
    for u in range(chosen_BU.shape[1]):
        after_BL = (values_B.clamp(0, 1)[:, None] * ratios_BUL[:, u]).clamp(max=1)
        chosen_B = after_BL.gather(-1, chosen_BU[:, u, None])[:, 0]
        differences.append(chosen_B - (probs_BUL[:, u] * after_BL).sum(-1))
        values_B = values_B + differences[-1]
    return torch.stack(differences, 1)


def _tensors(sample: _Sample) -> list[Any]:
    arrays = [torch.from_numpy(getattr(sample.choices, field.name)) for field in fields(Choices)]
    return [*arrays, sample.mean_reward, sample.reward]


def _sample(*row: Any) -> _Sample:
    *tensors, mean_reward, reward = row
    return _Sample(Choices(*(tensor.cpu().numpy() for tensor in tensors)), mean_reward, reward)
