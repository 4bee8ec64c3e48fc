"""Bias and noise of every estimator's gradient where the true one is known.

Writes unbiased.csv, of the estimators that docs/methods.md calls so, and bias.csv.

    python experiments/14_bias/run.py [--rollouts N] [--minutes M] [--batches DIR]

Simulates batches until there are N rollouts or M minutes are over; what lies in DIR counts, so that
the command goes on where it stopped. The advantages are those of `vineppo.credit` on `Rollout`s.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.credit import Credit, token_advantages
from vineppo.credit.gae import GaeCredit
from vineppo.credit.groups import (
    GrpoCredit,
    RlooCredit,
)
from vineppo.credit.vine import VineCredit, broadcast, vine_advantages
from vineppo.recipes.cutpoints import CutpointsSegmenter
from vineppo.recipes.cuts import CoinCuts, Cuts, ExpectedCuts
from vineppo.recipes.doubly_robust import DoublyRobustCredit
from vineppo.recipes.joined import JoinedCredit
from vineppo.recipes.martingale import MartingaleCredit
from vineppo.recipes.merged import MergedSegmenter
from vineppo.recipes.pooled import Pooled
from vineppo.recipes.reinforce_plus_plus import (
    ReinforcePlusPlusBaselineCredit,
    ReinforcePlusPlusCredit,
)
from vineppo.recipes.remax import RemaxCredit
from vineppo.recipes.shrunk import Shrunk
from vineppo.recipes.shrunk_mean import ShrunkMean
from vineppo.recipes.smoothed import Smoothed
from vineppo.recipes.tree import TreeCredit
from vineppo.segment import LinesSegmenter, TokensSegmenter
from vineppo.types import MONTE_CARLO, Problem, Rollout, StateValue, StepSpan
from vineppo.values.sampled import NO_VALUE

# The policy: at each of 6 places, on the right way or off it, one of three tokens. On it two
# wordings of the right step and a mistake; off it a step that stays wrong, an end, and a repair.
LENGTH, SAMPLES = 6, 4
MISTAKES = (0.05, 0.4, 0.05, 0.05, 0.4, 0.05)
OFF = (0.5, 0.3, 0.2)
BATCH = 1000  # problems
CONFIDENCE = 0.95

LINES, ONE = LinesSegmenter("lines"), TokensSegmenter("tokens", 1)
RLOO = RlooCredit("rloo", LINES)
VINE = VineCredit("vine", LINES, 3, "separate", None, False)
OWN = replace(VINE, own_return=True)
GAE = GaeCredit("gae", LINES, 1.0, 1.0, None, 1.0, "step")
ROBUST = DoublyRobustCredit("doubly_robust", LINES, 3, 1 / 3)
JOINED = JoinedCredit("joined", LINES, 3, "separate", ROBUST.monte_carlo.states)


def weighted(rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """v + (V̂ − v)/p after a step, v before it; for comparison alone."""
    advantages_G = []
    for rollout in rollouts_G:
        before_S = np.subtract(rollout.state_values_S, rollout.values_S("critic"))
        advantages_S = vine_advantages(rollout.state_values_S, rollout.reward)
        advantages_G.append((before_S + advantages_S).tolist())
    return advantages_G


def by_steps(
    segmenter: CutpointsSegmenter | MergedSegmenter, max_prob: float = 1.0
) -> Callable[[Sequence[Rollout]], list[list[float]]]:
    """`vine` on exact values between these steps; tokens of at least `max_prob` do not train."""

    def advantages_of(rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        advantages_G = []
        for rollout in rollouts_G:
            # With a token that ends the response, which no segmenter makes a step of its own.
            logprobs_T, values_T = (*rollout.logprobs_T, 0.0), rollout.values_S("exact")
            spans = segmenter.spans(["a"] * len(logprobs_T), logprobs_T)
            found = vine_advantages([values_T[span.start] for span in spans], rollout.reward)
            is_unsure_T = np.exp(rollout.logprobs_T) < max_prob
            advantages_G.append((broadcast(found, spans)[:-1] * is_unsure_T).tolist())
        return advantages_G

    return advantages_of


def tree(baseline: str, train_shared: str) -> Callable[[Sequence[Rollout]], list[list[float]]]:
    """Two nodes of three tokens with two leaves each, `Batch.is_tree`."""
    credit = TreeCredit("tree", LINES, (2, 2), 3, baseline, False, train_shared)

    def advantages_of(rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        found_G = token_advantages(credit, rollouts_G)
        for rollout, found_T in zip(rollouts_G, found_G, strict=True):
            rollout.tokens_T["advantages"] = found_T
        return [
            (np.array(found_T) * credit.trained_tokens(rollout)).tolist()
            for rollout, found_T in zip(rollouts_G, found_G, strict=True)
        ]

    return advantages_of


CUTS = {
    "coin": CoinCuts("coin", 0.5),
    "random": Cuts("random", 1),
    "uncertain": Cuts("uncertain", 1),
    "surprisal": Cuts("surprisal", 1),
}
SCALED_CUTS = {
    kind: (ExpectedCuts("expected", by, 0.5, 0.05), scale)
    for kind, by, scale in (("expected", "probability", 1.0), ("entropy", "entropy", 0.5))
}
# name -> (estimator, values that feed it, whether docs/methods.md says that it is unbiased)
Estimator = Credit | Callable[[Sequence[Rollout]], list[list[float]]]
ESTIMATORS: dict[str, tuple[Estimator, str | None, bool]] = {
    "rloo": (RLOO, None, True),
    "grpo, no deviation": (GrpoCredit("grpo", LINES, False), None, False),
    "grpo": (GrpoCredit("grpo", LINES, True), None, False),
    "reinforce_plus_plus": (
        ReinforcePlusPlusCredit("reinforce_plus_plus", LINES, 1.0),
        None,
        True,
    ),
    "vine, exact values": (VINE, "exact", True),
    "vine, K = 1": (VINE, "mc1", True),
    "vine, K = 3": (VINE, "mc3", True),
    "vine, K = 9": (VINE, "mc9", True),
    "vine, K = 3, shared": (VINE, "share", True),
    "vine, K = 3, own return": (OWN, "mc3", True),
    "vine, K = 3, own return in the baseline too": (VINE, "own", False),
    "vine, coin": (VINE, "coin", True),
    "vine, coin, own return": (OWN, "coin", True),
    "vine, coin, shared": (VINE, "share coin", True),
    "vine, random cut": (VINE, "random", False),
    "vine, uncertain cut": (VINE, "uncertain", False),
    "vine, surprisal cut": (VINE, "surprisal", False),
    "vine, until a success": (VINE, "until", False),
    "vine, more unless equal": (VINE, "more", False),
    "vine, pooled": (VINE, "pooled", True),
    "vine, shrunk, siblings": (VINE, "siblings", False),
    "vine, smoothed, causal": (VINE, "causal", False),
    "vine, smoothed, both": (VINE, "both", False),
    "vine, wrong critic": (VINE, "critic", False),
    "gae 1, smoothed, causal": (GAE, "causal", True),
    "gae 1, smoothed, both": (GAE, "both", False),
    "gae 1, wrong critic": (GAE, "critic", True),
    "gae 0.9, wrong critic": (replace(GAE, policy_lambda=0.9), "critic", False),
    "martingale, wrong": (MartingaleCredit("martingale", LINES), "martingale", True),
    "joined, wrong martingale": (JOINED, "martingale", True),
    "vine, coin of 1/3": (replace(VINE, states=ROBUST.monte_carlo.states), MONTE_CARLO, True),
    "gae 2/3, wrong critic": (replace(GAE, policy_lambda=2 / 3), "critic", False),
    "doubly_robust, wrong critic": (ROBUST, "critic", True),
    "doubly_robust, constant": (ROBUST, "constant", True),
    "doubly_robust, exact values": (ROBUST, "exact", True),
    "next state over 1/3, wrong critic": (weighted, "weighted", True),
    "vine, expected cuts": (VINE, "expected", True),
    "vine, expected cuts, own return": (OWN, "expected", True),
    "vine, cuts by entropy": (VINE, "entropy", True),
    "vine, merged steps": (by_steps(MergedSegmenter("merged", ONE, 0.5)), None, True),
    "vine, cutpoints": (by_steps(CutpointsSegmenter("cutpoints", 0.5, 1)), None, False),
    "spo_chain": (by_steps(CutpointsSegmenter("cutpoints", 0.5, 1), 0.5), None, False),
    "tree, others, by leaves": (tree("others", "by_leaves"), None, True),
    "tree, others, once": (tree("others", "once"), None, False),
    "tree, mean, by leaves": (tree("mean", "by_leaves"), None, False),
    "remax": (RemaxCredit("remax", LINES), None, True),
    "reinforce_plus_plus_baseline": (
        ReinforcePlusPlusBaselineCredit("reinforce_plus_plus_baseline", LINES),
        None,
        False,
    ),
    "gae 1, shrunk mean": (GAE, "shrunk_mean", True),
    "gae 1, shrunk, siblings": (GAE, "siblings", True),
    "gae 1, shrunk, previous": (GAE, "previous", True),
    "vine, shrunk, previous": (VINE, "previous", False),
}
TREES = [name for name in ESTIMATORS if name.startswith("tree")]


class World:
    """The policy, its exact values V[t, off], advantages and gradient, a wrong critic."""

    def __init__(self) -> None:
        self.probs = np.array([[[0.6 * (1 - m), 0.4 * (1 - m), m], OFF] for m in MISTAKES])
        self.values, self.advantages = exact(self.probs)
        self.gradient = np.zeros_like(self.probs)
        reach = np.array([1.0, 0.0])  # of a place, on the way and off it
        for t, probs in enumerate(self.probs):
            self.gradient[t] = reach[:, None] * probs * self.advantages[t]
            reach = np.array(
                [
                    reach[0] * probs[0, :2].sum() + reach[1] * probs[1, 2],
                    reach[0] * probs[0, 2] + reach[1] * probs[1, 0],
                ]
            )
        draw = np.random.default_rng(14)
        # Half the value, half a guess, and an error of its own after each last token.
        errors = draw.uniform(-0.2, 0.2, (LENGTH, 2, 3))
        self.critic = 0.5 * self.values[:LENGTH, :, None] + 0.25 + errors
        told = 0.5 * self.advantages + draw.uniform(-0.3, 0.3, self.probs.shape)
        self.differences = told - (self.probs * told).sum(-1, keepdims=True)


def exact(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V[t, off] up to the end, where it is the reward, and A[t, off, token]."""
    values = np.zeros((LENGTH + 1, 2))
    values[LENGTH] = 1, 0
    after = np.zeros_like(probs)
    for t in reversed(range(LENGTH)):
        right, wrong = values[t + 1]
        after[t] = [[right, right, wrong], [wrong, 0.0, right]]
        values[t] = (probs[t] * after[t]).sum(-1)
    return values, after - values[:LENGTH, :, None]


class Batch:
    """`BATCH` groups of rollouts, with all values; N = all of them, S = LENGTH, padded.

    In a tree the first three tokens of rollouts 0 and 1 are the same, and of 2 and 3.
    """

    def __init__(self, world: World, seed: int, is_tree: bool) -> None:
        draw = np.random.default_rng((14, seed))
        num = BATCH * SAMPLES
        self.off_NS = np.zeros((num, LENGTH), int)
        self.ids_NS = np.zeros((num, LENGTH), int)
        self.is_there_NS = np.zeros((num, LENGTH), bool)
        off, is_going = np.zeros(num, int), np.ones(num, bool)
        for t in range(LENGTH):
            toss = draw.random((num, 1))
            if is_tree and t < 3:
                toss[1::2] = toss[::2]
            chosen = (toss > world.probs[t, off].cumsum(-1)[:, :2]).sum(-1)
            self.off_NS[:, t], self.ids_NS[:, t], self.is_there_NS[:, t] = off, chosen, is_going
            is_going = is_going & ~((off == 1) & (chosen == 1))
            off = np.where(off == 0, chosen == 2, chosen == 0).astype(int)
        rewards = (is_going & (off == 0)).astype(float)
        places = np.arange(LENGTH)
        at = places, self.off_NS
        self.true_NS = world.values[at]
        before_NS = np.hstack([np.zeros((num, 1), int), self.ids_NS[:, :-1]])
        steps = {"exact": self.true_NS, "critic": world.critic[(*at, before_NS)]}
        tokens = {"martingale": world.differences[(*at, self.ids_NS)]}
        logprobs_NS = np.log(world.probs[(*at, self.ids_NS)])
        entropies_NS = -(world.probs[at] * np.log(world.probs[at])).sum(-1)
        self.exact_NS = world.advantages[(*at, self.ids_NS)] * self.is_there_NS
        score = -world.probs[at][..., None, :].repeat(2, -2)  # [N, S, off, token], 0 elsewhere
        score *= (np.arange(2) == self.off_NS[..., None])[..., None]
        n, s = np.indices(self.ids_NS.shape)
        score[n, s, self.off_NS, self.ids_NS] += 1
        self.score_NSA = score.reshape(num, LENGTH, 6)

        returns = {name: self._returns(draw, k) for name, k in (("mc1", 1), ("mc3", 3), ("mc9", 9))}
        # Those of a coin, 3 of a third of the boundaries; s_0 is none.
        robust = self._returns(draw, 3)
        tosses_NS = (draw.random((num, LENGTH)) < ROBUST.probability) & (places > 0)
        returns[MONTE_CARLO] = [
            [state if toss else NO_VALUE for state, toss in zip(*row, strict=True)]
            for row in zip(robust, tosses_NS.tolist(), strict=True)
        ]
        means_NS = np.array([[state.mean for state in row] for row in robust])
        errors_NS = means_NS - steps["critic"]
        steps["weighted"] = steps["critic"] + tosses_NS / ROBUST.probability * errors_NS
        steps["constant"] = np.full(self.true_NS.shape, 0.5)
        returns["until"], returns["more"] = self._stopped(draw), self._more(draw)
        lengths = self.is_there_NS.sum(1)
        self.costs: dict[str, float] = {}
        self.groups: list[list[Rollout]] = []
        for index in range(num):
            length = int(lengths[index])
            rollout = Rollout(
                problem=Problem(f"{index // SAMPLES}", "", ""),
                rollout_index=index % SAMPLES,
                prompt_ids=(9,),
                response_ids=tuple(self.ids_NS[index, :length].tolist()),
                logprobs_T=tuple(logprobs_NS[index, :length].tolist()),
                finish_reason="stop",
                text="",
                reward=float(rewards[index]),
                spans_S=SPANS[:length],
                tokens_T={"rewards": (0.0,) * (length - 1) + (float(rewards[index]),)},
                steps_S={f"values/{k}": v[index, :length].tolist() for k, v in steps.items()},
                returns_S={k: tuple(v[index][:length]) for k, v in returns.items()},
            )
            rollout.tokens_T["entropies"] = entropies_NS[index, :length].tolist()
            rollout.greedy_reward = 1.0  # the right way
            for name, differences in tokens.items():
                found = differences[index, :length].tolist()
                rollout.tokens_T[f"differences/{name}"] = found
                rollout.steps_S[f"values/{name}"] = [0.5] * length
            if index % SAMPLES == 0:
                self.groups.append([])
            self.groups[-1].append(rollout)
        seeds = draw.integers(2**40, size=(num, len(CUTS))).tolist()
        for group in self.groups:
            self._share(group, [seeds.pop() for _ in group])
            for rollout in group:
                for kind, (cuts, scale) in SCALED_CUTS.items():
                    cut = cuts.chosen(rollout, int(draw.integers(2**40)), scale)
                    states_S = enumerate(rollout.returns_S["mc3"])
                    rollout.returns_S[kind] = [s if i in cut else NO_VALUE for i, s in states_S]
        estimate_others(self.groups)

    def _returns(self, draw: np.random.Generator, k: int) -> list[list[StateValue]]:
        """K fresh continuations of every state: a return is a toss of its exact value."""
        return [[RETURNS[k][n] for n in row] for row in draw.binomial(k, self.true_NS).tolist()]

    def _stopped(self, draw: np.random.Generator) -> list[list[StateValue]]:
        """Up to nine continuations, none after the first success."""
        failures = np.minimum(draw.geometric(np.maximum(self.true_NS, 1e-9)) - 1, 9)
        return [[UNTIL[n] for n in row] for row in failures.tolist()]

    def _more(self, draw: np.random.Generator) -> list[list[StateValue]]:
        """Three continuations, and six more unless they agree; the mean of all."""
        first, more = draw.binomial(3, self.true_NS), draw.binomial(6, self.true_NS)
        return [
            [RETURNS[3][a] if a in (0, 3) else RETURNS[9][a + b] for a, b in zip(*row, strict=True)]
            for row in zip(first.tolist(), more.tolist(), strict=True)
        ]

    def _share(self, group: list[Rollout], seeds: list[list[int]]) -> None:
        """States of some steps alone, and those that rollouts share: the first one's returns."""
        first: dict[tuple[int, ...], StateValue] = {}
        tossed = set()
        for rollout, own in zip(group, seeds, strict=True):
            states_S = rollout.returns_S["mc3"]
            for i, state in enumerate(states_S):
                first.setdefault(rollout.response_ids[:i], state)
            for (kind, cuts), seed in zip(CUTS.items(), own, strict=True):
                chosen = cuts.chosen(rollout, seed)
                rollout.returns_S[kind] = [
                    s if i in chosen else NO_VALUE for i, s in enumerate(states_S)
                ]
                if kind == "coin":
                    tossed |= {rollout.response_ids[:i] for i in chosen}
        for rollout in group:
            prefixes = [rollout.response_ids[:i] for i in range(len(rollout.spans_S))]
            rollout.returns_S["share"] = [first[p] for p in prefixes]
            rollout.returns_S["share coin"] = [
                first[p] if p in tossed else NO_VALUE for p in prefixes
            ]
            rollout.steps_S["values/own"] = [
                (3 * s.mean + rollout.reward) / 4 for s in rollout.returns_S["mc3"]
            ]

    def gradients(self, credit: Estimator, values: str | None) -> tuple[np.ndarray, float]:
        """By group [P, D], and the continuations sampled a rollout."""
        found_NS = np.zeros(self.ids_NS.shape)
        rows = iter(found_NS)
        for group in self.groups:
            for rollout in group:
                rollout.values_from = values
            advantages_G = credit(group) if callable(credit) else token_advantages(credit, group)
            for advantages in advantages_G:
                next(rows)[: len(advantages)] = advantages
        source = SOURCES.get(values or "", values or "")
        if isinstance(credit, DoublyRobustCredit | JoinedCredit):
            source = MONTE_CARLO
        return self.summed(found_NS), self._cost(source)

    def _cost(self, source: str) -> float:
        if source not in self.costs:
            states = (
                s for group in self.groups for r in group for s in r.returns_S.get(source, ())
            )
            self.costs[source] = sum(len(s.returns_K) for s in states) / len(self.ids_NS)
        return self.costs[source]

    def summed(self, advantages_NS: np.ndarray) -> np.ndarray:
        by_rollout = advantages_NS[..., None] * self.score_NSA
        return by_rollout.reshape(BATCH, SAMPLES, -1).mean(1)


SPANS = tuple(StepSpan(i, i + 1) for i in range(LENGTH))
RETURNS = {
    k: [StateValue((1.0,) * n + (0.0,) * (k - n), 0) for n in range(k + 1)] for k in (1, 3, 9)
}
UNTIL = [StateValue((0.0,) * n + (1.0,) * (n < 9), 0) for n in range(10)]
# Whose continuations the others read.
SOURCES = dict.fromkeys(("own", "pooled", "siblings", "previous", "causal", "both"), "mc3")
SOURCES["weighted"] = MONTE_CARLO


def estimate_others(groups: Sequence[list[Rollout]]) -> None:
    """The values of the predictors that read K = 3; an iteration has 50 problems."""
    for first in range(0, len(groups), 50):
        rollouts = [one for group in groups[first : first + 50] for one in group]
        for predictor in READERS:
            predictor.estimate(rollouts)


def readers() -> Iterator[Pooled | Shrunk | ShrunkMean | Smoothed]:
    config = load_config(TrainConfig, "configs/demo_vineppo.jsonnet", [])
    config = replace(config, values=replace(config.values, predictors={"mc3": VINE.monte_carlo}))
    yield Pooled("pooled", config, Pooled.Config(of="mc3", kind="pooled"))
    for toward in ("siblings", "previous"):
        yield Shrunk(toward, config, Shrunk.Config(of="mc3", kind="shrunk", toward=toward))
    yield ShrunkMean("shrunk_mean", config, ShrunkMean.Config("shrunk_mean", 0))
    for way in ("causal", "both"):
        own = Smoothed.Config(of="mc3", kind="smoothed", change=0.2, direction=way)
        yield Smoothed(way, config, own)


READERS = list(readers())


def simulate(world: World, seed: int, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Each estimator's distance of its mean gradient from exact advantages', trace and cost."""
    found = {}
    for is_tree in (False, True):
        chosen = [name for name in names if (name in TREES) == is_tree]
        if not chosen:
            continue
        batch = Batch(world, seed, is_tree)
        exact_PD = batch.summed(batch.exact_NS)
        for name in chosen:
            credit, values, _ = ESTIMATORS[name]
            gradients_PD, cost = batch.gradients(credit, values)
            trace = gradients_PD.var(0, ddof=1).sum()
            bias_D = (gradients_PD - exact_PD).mean(0)
            found[name] = np.concatenate([bias_D, [trace, cost]])
    return found


def table(world: World, batches: Sequence[Path]) -> pd.DataFrame:
    """A row an estimator; lengths over that of the true gradient.

    The exact advantages' gradient on the same rollouts is right on average, so that the mean
    distance from it is the bias, with less noise than the mean gradient has. With b̂ its mean over
    the batches, and q the length that the noise of b̂ exceeds in 5 % (of normal draws with the
    batches' covariance), the bias is of length |b̂| − q to |b̂| + q.
    """
    true_D = world.gradient.ravel()
    length = np.linalg.norm(true_D)
    stored = [dict(np.load(path)) for path in batches]
    draw = np.random.default_rng(0)
    rows, noise_of = [], {}
    for name, (_, _, is_unbiased) in ESTIMATORS.items():
        found_N = np.array([one[name] for one in stored if name in one])
        biases_ND, (trace, cost) = found_N[:, :-2] / length, found_N[:, -2:].mean(0)
        bias_D, covariance = biases_ND.mean(0), np.cov(biases_ND.T) / len(found_N)
        size = np.linalg.norm(bias_D)
        errors = draw.normal(size=(20_000, len(bias_D))) * np.sqrt(
            np.linalg.eigvalsh(covariance).clip(min=0)
        )
        most = np.quantile(np.linalg.norm(errors, axis=1), CONFIDENCE)
        along_N = 1 + biases_ND @ true_D / length
        error = 1.96 * along_N.std(ddof=1) / len(along_N) ** 0.5
        noise_of[name] = trace
        rows.append(
            {
                "estimator": name,
                "is_unbiased": is_unbiased,
                "rollouts": len(found_N) * BATCH * SAMPLES,
                "continuations": cost,
                "projection": along_N.mean(),
                "projection_low": along_N.mean() - error,
                "projection_high": along_N.mean() + error,
                "bias": np.sqrt(max(0.0, size**2 - np.trace(covariance))),
                "bias_low": max(0.0, size - most),
                "bias_high": size + most,
                "noise": trace / noise_of["rloo"],
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--batches", type=Path, default=Path("runs/14_bias"))
    args = parser.parse_args()
    args.batches.mkdir(parents=True, exist_ok=True)
    world, end = World(), time.monotonic() + 60 * args.minutes
    for seed in range(-(-args.rollouts // (BATCH * SAMPLES))):
        path = args.batches / f"{seed:05d}.npz"
        found = dict(np.load(path)) if path.exists() else {}
        missing = [name for name in ESTIMATORS if name not in found]
        if missing and time.monotonic() < end:
            found |= simulate(world, seed, missing)
            np.savez(args.batches / "part.npz", **found)
            (args.batches / "part.npz").rename(path)
    result = table(world, sorted(args.batches.glob("[0-9]*.npz")))
    for is_unbiased, name in ((True, "unbiased.csv"), (False, "bias.csv")):
        rows = result[result["is_unbiased"] == is_unbiased]
        rows.to_csv(Path(__file__).with_name(name), index=False, float_format="%.5f")
    print(result.to_string(index=False))


if __name__ == "__main__":
    main()
