"""A probe: a state's value by a small network on how sure the policy was on its way there.

Take the state s before a step, with π's log-probabilities and exact entropies (nats) of the tokens
before it, and m the mean reward of the problem's other rollouts:

    x(s) = m, steps, tokens, Σ log π, min log π, Σ H, max H        `features` "uncertainty"
         = m and the policy's last hidden state                    "hidden"; "both": all of them
    V(s) = σ(wᵀ relu(W (x − μ)/ς + b) + c)

fitted by binary cross-entropy to returns within [0, 1]. These come from the continuations that `of`
sampled at s, if any (`of` null: none). The rollout's reward joins, as one return more from each of
its states. They are of this iteration and of the `replay_iterations` before it, with the features
they had.

With `crossed` it is POISE's: the ends of the other rollouts say what the prompt is worth. Each
rollout is one row: x of its last state without m, and as return the mean reward of the problem's
others. The mean of V over the others' rows is the value of all of a rollout's states.

Sources: probes on the policy, and crossed rollouts, POISE (arXiv:2605.07579); cross-fitting,
Chernozhukov et al. 2018 (arXiv:1608.00060).

When is the gradient unbiased? V is a fair baseline. The iteration's problems are split into
`num_folds`. A fold's values come from a fit to the other folds and to earlier iterations. Given the
policy, these are independent of all that the fold's rollouts do. A split by rollouts would not be
enough: siblings share states, and by an action a rollout decides which of them it has sampled. m is
of the siblings alone, and the other features are of tokens before s. With `crossed` they are of the
siblings alone, the same for all steps. So `gae` with `level` "step" and γ = λ = 1, and
`doubly_robust`, are unbiased. As Q̂ (`vine`) V is biased as far as it is wrong. With one fold, or
one problem, the values come from earlier iterations alone.

Cost: no tokens but those that `of` samples, and nothing of the policy is trained; of the pass that
it makes anyway, the entropies. `num_steps` of Adam on `batch_size` states, for 2 · `num_folds` + 1
networks. The replay keeps 7 numbers of a state, or as many as the policy's hidden size.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from vineppo.config.require import require
from vineppo.config.schema import (
    Count,
    Name,
    NonNegative,
    PositiveFraction,
    PredictorConfig,
)
from vineppo.config.schema.values import sampled_by
from vineppo.types import Rollout, by_problem, derive_seed
from vineppo.values import ValuePredictor
from vineppo.values.group_mean import means_of_others
from vineppo.values.sampled import NO_VALUE

PRIOR = 0.5  # of the first iteration where there is no other fold


@dataclass(frozen=True)
class States:
    """Features of N states, the mean of the returns from each, and how many returns there are."""

    features_NI: torch.Tensor
    means_N: torch.Tensor
    counts_N: torch.Tensor

    @classmethod
    def joined(cls, parts: Sequence["States"]) -> "States":
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*map(torch.cat, columns))

    def error(self, values_N: torch.Tensor) -> float:
        """Mean squared, of the means by their counts; their noise is in it."""
        errors_N = (values_N - self.means_N) ** 2
        return float(self.counts_N @ errors_N / self.counts_N.sum())


@dataclass
class Networks:
    """F networks side by side, of I inputs and C units each."""

    mean_F1I: torch.Tensor
    scale_F1I: torch.Tensor
    inner_FIC: torch.Tensor
    inner_F1C: torch.Tensor
    outer_FC1: torch.Tensor
    outer_F11: torch.Tensor

    def logits(self, features_FNI: torch.Tensor) -> torch.Tensor:
        """[F, N]"""
        inputs_FNI = (features_FNI - self.mean_F1I) / self.scale_F1I
        hidden_FNC = torch.relu(torch.baddbmm(self.inner_F1C, inputs_FNI, self.inner_FIC))
        return torch.baddbmm(self.outer_F11, hidden_FNC, self.outer_FC1)[..., 0]

    @torch.no_grad()
    def values(self, features_NI: torch.Tensor) -> torch.Tensor:
        """A row for each network, [F, N]."""
        return self.logits(features_NI.expand(len(self.mean_F1I), -1, -1)).sigmoid()


def fitted(states: States, is_seen_FN: torch.Tensor, options: Any, seed: int) -> Networks:
    """A network for each row of `is_seen_FN`, which says what states it is fitted to.

    A batch holds a state as often as it has returns: cross-entropy is linear in the return. The
    outer weights start at 0, so that without a step V is the mean of all returns.
    """
    draw = torch.Generator().manual_seed(seed)
    weights_FN = is_seen_FN * states.counts_N
    networks = _start(states, weights_FN, options.size, draw)
    num_networks = len(weights_FN)
    chosen_FD = torch.multinomial(
        weights_FN, options.num_steps * options.batch_size, True, generator=draw
    )
    chosen_DFB = chosen_FD.view(num_networks, options.num_steps, options.batch_size).transpose(0, 1)
    weights = [networks.inner_FIC, networks.inner_F1C, networks.outer_FC1, networks.outer_F11]
    for weight in weights:
        weight.requires_grad_()
    adam = torch.optim.AdamW(weights, lr=options.learning_rate, weight_decay=options.weight_decay)
    for chosen_FB in chosen_DFB:
        logits_FB = networks.logits(states.features_NI[chosen_FB])
        loss = binary_cross_entropy_with_logits(logits_FB, states.means_N[chosen_FB])
        adam.zero_grad()
        (num_networks * loss).backward()  # each network's own mean
        adam.step()
    for weight in weights:
        weight.requires_grad_(False)
    return networks


def _start(states: States, weights_FN: torch.Tensor, size: int, draw: torch.Generator) -> Networks:
    shares_FN = (weights_FN / weights_FN.sum(1, keepdim=True)).double()
    features_NI = states.features_NI.double()
    mean_FI = shares_FN @ features_NI
    variance_FI = (shares_FN @ features_NI**2 - mean_FI**2).clamp(min=0)
    base_F = (shares_FN @ states.means_N.double()).clamp(0.01, 0.99)
    bound = mean_FI.shape[1] ** -0.5
    inner_FIC = bound * (2 * torch.rand(*mean_FI.shape, size, generator=draw) - 1)
    return Networks(
        mean_F1I=mean_FI[:, None].float(),
        scale_F1I=variance_FI.sqrt().clamp(min=1e-3)[:, None].float(),
        inner_FIC=inner_FIC,
        inner_F1C=torch.zeros_like(inner_FIC[:, :1]),
        outer_FC1=torch.zeros(len(mean_FI), size, 1),
        outer_F11=base_F.logit().float()[:, None, None],
    )


def doubts(rollout: Rollout) -> np.ndarray:
    """Steps, tokens, Σ log π, min log π, Σ H and max H before each step, [S, 6]; 0 of no token.

    Steps of 2 and 1 tokens, log π = −1, −3, −2 and H = 0.5, 2, 1: the second row is 1, 2, −4, −3,
    2.5, 2.
    """
    starts_S = [span.start for span in rollout.spans_S]
    logprobs_T = np.array([0.0, *rollout.tokens_T["trainer_logprobs"]])
    entropies_T = np.array([0.0, *rollout.tokens_T["entropies"]])
    so_far = (
        np.cumsum(logprobs_T), np.minimum.accumulate(logprobs_T),
        np.cumsum(entropies_T), np.maximum.accumulate(entropies_T),
    )  # fmt: skip
    places_S2 = np.stack([np.arange(len(starts_S)), starts_S], 1)
    return np.concatenate([places_S2, np.stack(so_far, 1)[starts_S]], 1)


class Probe(ValuePredictor):
    """Values by networks that saw no return of the problem.

    It reads `of`'s returns to learn; a checkpoint's is asked without any.
    """

    is_probability = True
    reads_entropies = True
    training_only = ("replay",)

    @dataclass(frozen=True, kw_only=True)
    class Config(PredictorConfig):
        of: Name | None = None  # it learns from this one's returns besides; null: rewards alone
        features: Literal["uncertainty", "hidden", "both"] = "uncertainty"
        size: Count = 64  # of its hidden layer
        learning_rate: PositiveFraction = 1e-3
        weight_decay: NonNegative = 0.01
        num_steps: Count = 100  # of Adam, a fit
        batch_size: Count = 64  # states a step
        replay_iterations: Count = 20  # earlier ones, whose returns count as well
        num_folds: Count = 4  # of an iteration's problems; 1: values by earlier iterations alone
        # A rollout's value is what the problem's other rollouts tell of it, at their ends.
        crossed: bool = False

        @property
        def returns_of(self) -> str | None:
            return self.of

        def check(self, key: str, config: Any) -> None:
            if self.of is not None:
                sampled_by(f"{key}.of", self.of, config)
            if not self.crossed:
                return
            require(
                self.of is None,
                f"{key}.of must be null with {key}.crossed (it looks at rewards alone), got "
                f"{self.of!r}",
            )
            require(
                config.rollouts.num_samples >= 2,
                f"rollouts.num_samples must be at least 2 with {key}.crossed (it looks at a "
                f"problem's other rollouts), got {config.rollouts.num_samples}",
            )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reads_hidden = self.options.features != "uncertainty"
        self._earlier: Networks | None = None  # a single one, fitted to the replay
        self._replay: deque[States] = deque(maxlen=self.options.replay_iterations)

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        fold_N = self._fold_of_states(rollouts)
        features_NI = self._features(rollouts, _siblings(rollouts))
        if not fold_N.any():
            values_N = self._by_earlier(features_NI)
        else:
            values_N = self._crossed([*self._replay], self._states(rollouts), fold_N)
        self._set(rollouts, values_N)

    def estimate_branches(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:
        """Whatever a rollout does at a state, its problem's others stay the same."""
        if self.options.crossed:
            self.set_as_rollouts(branches, rollouts)
            return
        features_NI = self._features(branches, _siblings(rollouts))
        self._set(branches, self._by_earlier(features_NI))

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        """Fits what values the next iteration.

        `error` is the squared error of the values to this iteration's returns. `error_earlier` is
        for the fit to earlier iterations alone, `error_new` for crossed fits to this one alone. Old
        returns are stale where they do worse than new ones. They are also stale where `drift`, the
        mean of what was returned beyond the earlier fit's values, is far from 0.
        """
        states = self._states(rollouts)
        fold_N = self._fold_of_states(rollouts)
        used_N = torch.tensor([v for one in rollouts for v in self._rows(one.values_S(self.name))])
        metrics = {"error": states.error(used_N)}
        if self._earlier is not None:
            values_N = self._by_earlier(states.features_NI)
            metrics["error_earlier"] = states.error(values_N)
            beyond = states.counts_N @ (states.means_N - values_N)
            metrics["drift"] = float(beyond / states.counts_N.sum())
        if fold_N.any():
            metrics["error_new"] = states.error(self._crossed([], states, fold_N))
        # In the replay, a state that is not finite would be in every fit until it has left.
        is_finite_N = states.features_NI.isfinite().all(1)
        self._replay.append(States(*(column[is_finite_N] for column in vars(states).values())))
        replay = States.joined(self._replay)
        if len(replay.means_N):
            self._earlier = self._fit(replay, torch.ones(1, len(replay.means_N)))
        return {f"{self.metrics_group}/{key}": number for key, number in metrics.items()}

    def _crossed(
        self, earlier: Sequence[States], states: States, fold_N: torch.Tensor
    ) -> torch.Tensor:
        """A state's value is by the network of its fold, which sees all others and the earlier."""
        is_seen_FN = torch.arange(int(fold_N.max()) + 1)[:, None] != fold_N
        num_earlier = sum(len(part.means_N) for part in earlier)
        is_seen_FN = torch.nn.functional.pad(is_seen_FN, (num_earlier, 0), value=True)
        networks = self._fit(States.joined([*earlier, states]), is_seen_FN)
        return networks.values(states.features_NI).gather(0, fold_N[None])[0]

    def _fit(self, states: States, is_seen_FN: torch.Tensor) -> Networks:
        return fitted(states, is_seen_FN, self.options, derive_seed(self.config.seed, self.column))

    def _by_earlier(self, features_NI: torch.Tensor) -> torch.Tensor:
        if self._earlier is None:
            return torch.full((len(features_NI),), PRIOR)
        return self._earlier.values(features_NI)[0]

    def _fold_of_states(self, rollouts: Sequence[Rollout]) -> torch.Tensor:
        """By problem; all 0 where there is one fold."""
        problems = list(dict.fromkeys(rollout.problem.id for rollout in rollouts))
        num_folds = 1 if self.is_frozen else self.options.num_folds
        fold = {problem: i % num_folds for i, problem in enumerate(problems)}
        return torch.tensor([fold[r.problem.id] for r in rollouts for _ in self._rows(r.spans_S)])

    def _rows(self, of_steps_S: Any) -> Any:
        """Those of the states that it looks at: of all, or of the last."""
        return of_steps_S[-1:] if self.options.crossed else of_steps_S

    def _features(
        self, rollouts: Sequence[Rollout], siblings: Mapping[tuple[str, int], float]
    ) -> torch.Tensor:
        features_R = []
        for rollout in rollouts:
            known = 0.0 if self.options.crossed else siblings[rollout.key]
            parts = [np.full((len(rollout.spans_S), 1), known)]
            if self.options.features != "hidden":
                parts.append(doubts(rollout))
            if self.reads_hidden:
                assert rollout.hidden_SH is not None, "set by the policy's pass"
                parts.append(rollout.hidden_SH)
            features_R.append(self._rows(np.concatenate(parts, 1)))
        return torch.from_numpy(np.concatenate(features_R)).float()

    def _states(self, rollouts: Sequence[Rollout]) -> States:
        siblings = _siblings(rollouts)
        returns_N: list[tuple[float, ...]] = []
        for rollout in rollouts:
            if self.options.crossed:
                returns_N.append((siblings[rollout.key],))
                continue
            none_S = (NO_VALUE,) * len(rollout.spans_S)
            states = rollout.returns_S.get(self.options.of or "", none_S)
            returns_N += [(*state.returns_K, rollout.reward) for state in states]
        return States(
            self._features(rollouts, siblings),
            torch.tensor([sum(returns) / len(returns) for returns in returns_N]),
            torch.tensor([float(len(returns)) for returns in returns_N]),
        )

    def _set(self, rollouts: Sequence[Rollout], values_N: torch.Tensor) -> None:
        if self.options.crossed:
            row = {r.key: v for r, v in zip(rollouts, values_N.tolist(), strict=True)}
            for group_G in by_problem(rollouts):
                others = ([row[o.key] for o in group_G if o is not one] for one in group_G)
                self.set_by_rollout(group_G, [*map(fmean, others)])
            return
        lengths = [len(rollout.spans_S) for rollout in rollouts]
        self.set_values(rollouts, [values_S.tolist() for values_S in values_N.split(lengths)])

    def state(self) -> dict[str, Any]:
        return {
            "earlier": None if self._earlier is None else vars(self._earlier),
            "replay": [vars(states) for states in self._replay],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        if state["earlier"] is not None:
            self._earlier = Networks(**state["earlier"])
        self._replay.extend(States(**columns) for columns in state.get("replay", ()))


def _siblings(rollouts: Sequence[Rollout]) -> dict[tuple[str, int], float]:
    """The mean reward of the others of its problem, for each rollout's key."""
    found = {}
    for group_G in by_problem(rollouts):
        for rollout, mean in zip(group_G, means_of_others(group_G), strict=True):
            found[rollout.key] = mean
    return found
