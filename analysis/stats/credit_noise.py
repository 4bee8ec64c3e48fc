"""What credit estimators' gradients would vary by, predicted from values along saved rollouts.

Scores of different tokens are taken as orthogonal, so that a rollout's gradient Σ_t A_t ∇ log π has
the second moment Σ_i m_i E A_i² with m_i the squared length of the gradient of step i's
log-probability, in the weights or in the logits. There that of one token is
Σ_a (1[a = a_t] − π(a))², and 1 − π(a_t) has the same mean. With v_i the value of state
i, u_i = v_i(1 − v_i) the variance of a return from it and d_ij = E (v_j − v_i)²:

    exact values             A_i = v_{i+1} − v_i      E A_i² = d_{i,i+1}
    K continuations          differences of means     d_{i,i+1} + u_i/K + u_{i+1}/K
    with the own outcome     in the mean of the end   d_{i,i+1} + u_i/K + u_{i+1}/(K + 1)
    a piece from l to h      between two cuts, the    d_lh + u_l/K + u_h/(K + 1), at the root
                             same on all its steps    u_0/(G − 1) of the G − 1 other outcomes
    the doubly robust        of values w, by the      (L_i − w_i + v_j − w_j)² + u_j/K, with L_i
                             next state j of a coin   the λ-return after the step; (L_i − w_i)²

u is 0 at the end, and the last is where no state is chosen. What RLOO, a critic and a martingale
would give is taken from the rollouts, and what is made of continuations from saved ones or tosses
of the values (`drawn`).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import comb

from vineppo.types import StateValue


@dataclass(frozen=True)
class Path:
    """A rollout of S steps, in a group of `group_size` G.

    `masses_S` are the m_i. `values_Z` are of the Z = S + 1 states, up to a constant, the last its
    outcome or what the values come to without it; `errors_Z` are the variances of these estimates
    and `variances_Z` are u. `chances_S` are the values themselves, as far as they are known, `end`
    is the last one; where continuations tell them, `returns_SK` has them. `residual` is the
    variance of the outcome that the values leave unexplained: it is spread over the steps by their
    masses. All are unbiased, not each in range.
    """

    masses_S: np.ndarray
    starts_S: np.ndarray  # first tokens of the steps, of `num_tokens`
    num_tokens: int
    group_size: int
    values_Z: np.ndarray
    errors_Z: np.ndarray
    variances_Z: np.ndarray
    chances_S: np.ndarray
    end: float
    residual: float = 0.0
    returns_SK: tuple[tuple[float, ...], ...] | None = None

    @property
    def most_draws(self) -> float:
        """How many continuations of every state `drawn` can give."""
        return math.inf if self.returns_SK is None else min(map(len, self.returns_SK))

    @property
    def cumulated_Z(self) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(self.masses_S)])

    def squares(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """d of the pairs of states."""
        mass_Z = self.cumulated_Z
        shares = (mass_Z[high] - mass_Z[low]) / max(mass_Z[-1], 1e-12)
        differences = self.values_Z[high] - self.values_Z[low]
        errors = self.errors_Z[high] + self.errors_Z[low]
        return differences**2 - errors + self.residual * shares


def sampled_path(
    masses_S: np.ndarray,
    starts_S: np.ndarray,
    num_tokens: int,
    group_size: int,
    returns_SK: Sequence[Sequence[float]],
    reward: float,
) -> Path:
    """By at least two continuations a state: mean and sample variance, which is unbiased for u."""
    means = [*map(np.mean, returns_SK), reward]
    variances_Z = np.array([*(np.var(returns, ddof=1) for returns in returns_SK), 0.0])
    numbers = np.array([*map(len, returns_SK), 1])
    return Path(
        masses_S, starts_S, num_tokens, group_size, np.array(means), variances_Z / numbers,
        variances_Z, np.array(means[:-1]), reward, returns_SK=tuple(map(tuple, returns_SK)),
    )  # fmt: skip


def exact_path(
    masses_S: np.ndarray,
    starts_S: np.ndarray,
    num_tokens: int,
    group_size: int,
    values_S: Sequence[float],
    reward: float,
) -> Path:
    values_Z = np.array([*values_S, reward])
    variances_Z = values_Z * (1 - values_Z)
    variances_Z[-1] = 0.0
    zeros_Z = np.zeros(len(values_Z))
    return Path(
        masses_S,
        starts_S,
        num_tokens,
        group_size,
        values_Z,
        zeros_Z,
        variances_Z,
        values_Z[:-1],
        reward,
    )


def martingale_path(
    masses_S: np.ndarray,
    starts_S: np.ndarray,
    num_tokens: int,
    differences_S: np.ndarray,
    residuals_G: Sequence[float],
    index: int,
) -> Path:
    """By a fitted martingale whose steps changed it by `differences_S`.

    `residuals_G` are R − Σ differences of the group, this rollout's at `index`. The value is the
    mean of the others' plus what the steps have changed, m; its own variance s²/(G − 1) and the
    part of s² that the steps before have spent are taken off u = m(1 − m).
    """
    own_mass_Z = np.concatenate([[0.0], np.cumsum(masses_S)])
    values_Z = np.concatenate([[0.0], np.cumsum(differences_S)])
    residual, others = float(np.var(residuals_G, ddof=1)), len(residuals_G) - 1
    m_Z = values_Z + (sum(residuals_G) - residuals_G[index]) / others
    spent_Z = own_mass_Z / max(own_mass_Z[-1], 1e-12)
    variances_Z = m_Z * (1 - m_Z) + residual / others - residual * spent_Z
    variances_Z[-1] = 0.0
    return Path(
        masses_S, starts_S, num_tokens, others + 1, values_Z, np.zeros(len(values_Z)), variances_Z,
        np.clip(m_Z[:-1], 0, 1), float(m_Z[-1]), residual,
    )  # fmt: skip


def exact_noise(path: Path) -> float:
    places_S = np.arange(len(path.masses_S))
    return float(path.masses_S @ path.squares(places_S, places_S + 1))


def vine_noise(path: Path, num_continuations: int, *, with_own: bool = False) -> float:
    """Of continuations at all states."""
    u_Z, k = path.variances_Z, num_continuations
    return exact_noise(path) + float(path.masses_S @ (u_Z[:-1] / k + u_Z[1:] / (k + with_own)))


def vine_tokens(path: Path, num_continuations: int) -> float:
    """Sampled besides the rollout, which as one draw tells the length left; the root's are shared.

    10 tokens in steps from 0 and 4, K = 2, G = 4: 2·(10/4 + 6) = 17.
    """
    root = path.num_tokens / path.group_size
    return num_continuations * (root + float((path.num_tokens - path.starts_S[1:]).sum()))


def cut_probabilities(
    low: np.ndarray, high: np.ndarray, num_steps: int, num_cuts: int
) -> np.ndarray:
    """That two states bound one piece, of `num_cuts` of the num_steps − 1 inner states.

    Three steps, one cut: each of (0, 1), (1, 3), (0, 2) and (2, 3) one half, (0, 3) never.
    """
    is_cut = (low > 0).astype(int) + (high < num_steps)
    elsewhere = np.maximum(low - 1, 0) + np.maximum(num_steps - 1 - high, 0)
    return comb(elsewhere, num_cuts - is_cut) / comb(num_steps - 1, num_cuts)


def cuts_noise(path: Path, num_cuts: int, num_continuations: int) -> float:
    """Of continuations at `num_cuts` inner states drawn at random, or all where there are fewer.

    The own outcome joins the end of a piece, and the other rollouts' are the value of the root.
    """
    num_steps = len(path.masses_S)
    low, high = np.triu_indices(num_steps + 1, 1)
    probabilities = cut_probabilities(low, high, num_steps, min(num_cuts, num_steps - 1))
    return float(probabilities @ noise_of_pieces(path, low, high, num_continuations))


def coin_noise(path: Path, probability: float, num_continuations: int) -> float:
    """`cuts_noise` of every inner state with this probability, each by itself."""
    num_steps = len(path.masses_S)
    low, high = np.triu_indices(num_steps + 1, 1)
    is_cut = (low > 0).astype(int) + (high < num_steps)
    probabilities = probability**is_cut * (1 - probability) ** (high - low - 1)
    return float(probabilities @ noise_of_pieces(path, low, high, num_continuations))


def robust_noise(
    path: Path,
    values_S: Sequence[float],
    reward: float,
    probability: float,
    num_continuations: int,
) -> float:
    """Of `credit.doubly_robust` on any values w of the rollout's states.

    E v_j² is v_j − u_j, as returns are 0 or 1. What the values leave unexplained up to state j is
    in the outcome as well, and L_i has (1 − p)^(S − i − 1) of that.
    """
    num_steps, kept = len(values_S), 1 - probability
    values, steps = np.array(values_S), np.arange(num_steps)
    true_Z = path.values_Z + path.end - path.values_Z[-1]
    unexplained_Z = path.residual * path.cumulated_Z / max(path.cumulated_Z[-1], 1e-12)
    noise = 0.0
    for i, mass in enumerate(path.masses_S):
        later = steps[i + 1 :]
        weights, end = probability * kept ** (later - i - 1), kept ** (num_steps - i - 1)
        without = float(weights @ values[later]) + end * reward - values[i]
        off, true = without - values[later], true_Z[later]
        squares = off**2 + 2 * off * true + true - path.variances_Z[later]
        squares += path.variances_Z[later] / num_continuations + 2 * end * unexplained_Z[later]
        noise += mass * (float(weights @ squares) + end * without**2)
    return float(noise)


def coin_tokens(path: Path, probability: float, num_continuations: int) -> float:
    """Sampled besides the rollout, as the mean over the coins."""
    left = float((path.num_tokens - path.starts_S[1:]).sum())
    return num_continuations * probability * left


def noise_of_pieces(
    path: Path, low: np.ndarray, high: np.ndarray, num_continuations: int
) -> np.ndarray:
    """Of the steps between two states each."""
    u_Z = path.variances_Z
    begin = np.where(low > 0, u_Z[low] / num_continuations, u_Z[0] / (path.group_size - 1))
    end = u_Z[high] / (num_continuations + 1)
    masses = path.cumulated_Z[high] - path.cumulated_Z[low]
    noises: np.ndarray = masses * (path.squares(low, high) + begin + end)
    return noises


def chosen_noise(path: Path, cuts: Collection[int], num_continuations: int) -> float:
    """`cuts_noise` of the given steps."""
    bounds = np.array([0, *sorted(cuts), len(path.masses_S)])
    return float(noise_of_pieces(path, bounds[:-1], bounds[1:], num_continuations).sum())


def joined_noise(
    path: Path,
    cuts: Collection[int],
    num_continuations: int,
    residual: float | None = None,
) -> float:
    """Of `credit.joined` between the given steps; of a martingale what it adds to its own steps.

    What is joined is linear in the values of the states, in the errors of the draws, of variance
    u/K, and of the root, u_0/(G − 1). With a martingale the values are the part W that it leaves
    unexplained, of variance `residual` times the share of the masses before a state, and the root's
    error is that of 1/G Σ e_j.
    """
    k, others, num_steps = num_continuations, path.group_size - 1, len(path.masses_S)
    shares_Z = path.cumulated_Z / max(path.cumulated_Z[-1], 1e-12)
    # Weights of the values and of the draws' errors at the Z states, and of the root's error.
    size = num_steps + 1
    state_ZW = np.hstack([np.eye(size), np.eye(size), np.zeros((size, 1))])
    end_W = np.concatenate([np.eye(size)[-1], np.zeros(size + 1)])
    root_W = np.concatenate([np.eye(size)[0], np.eye(size + 1)[-1]])
    pieces = list(pairwise([0, *sorted(cuts), num_steps]))
    weights_SW = np.zeros((num_steps, 2 * size + 1))
    for low, high in reversed(pieces):
        weights_SW[low:high] += end_W  # of the next cut or the end
        end_W = (k * state_ZW[low] + end_W) / (k + 1)
    for low, high in pieces:
        if low > 0:
            root_W = (k * state_ZW[low] + others * root_W) / (k + others)
        weights_SW[low:high] -= root_W
    of_values_SZ, of_draws_SZ = weights_SW[:, :size], weights_SW[:, size:-1]
    squares_S = of_draws_SZ**2 @ (path.variances_Z / k)
    walk_ZZ = np.minimum.outer(shares_Z, shares_Z)
    if residual is None:
        squares_S += (of_values_SZ @ path.values_Z) ** 2 - of_values_SZ**2 @ path.errors_Z
        root, residual = path.variances_Z[0] / others, path.residual
    else:
        root = residual * others / path.group_size**2
    squares_S += residual * ((of_values_SZ @ walk_ZZ) * of_values_SZ).sum(-1)
    squares_S += weights_SW[:, -1] ** 2 * root
    return float(path.masses_S @ squares_S)


def chosen_tokens(path: Path, cuts: Collection[int], num_continuations: int) -> float:
    """10 tokens in steps from 0, 4 and 7, cuts before both later ones, K = 2: 2·(6 + 3) = 18."""
    return num_continuations * float((path.num_tokens - path.starts_S[list(cuts)]).sum())


def drawn(path: Path, num_continuations: int, rng: np.random.Generator) -> list[StateValue]:
    """K returns of every state: of the saved ones, or 1 with the chance that its value is."""
    if path.returns_SK is not None:
        found_SK = [rng.permutation(returns_K)[:num_continuations] for returns_K in path.returns_SK]
    else:
        shape = len(path.chances_S), num_continuations
        found_SK = list(rng.random(shape) < path.chances_S[:, None])
    return [StateValue(tuple(map(float, returns_K)), 0) for returns_K in found_SK]


def baseline_noise(path: Path, values_S: Sequence[float], reward: float) -> float:
    """Of A_i = R − V̂_i."""
    return float(path.masses_S @ (reward - np.array(values_S)) ** 2)


def differences_noise(path: Path, values_S: Sequence[float], num_continuations: int) -> float:
    """Of A_i = V̂_{i+1} − V̂_i, to the value of the end, and the residual as in `Path.squares`.

    A toss varies by v(1 − v), which is taken to the u of its state.
    """
    shares_S = path.masses_S / max(path.cumulated_Z[-1], 1e-12)
    squares_S = np.diff([*values_S, path.end]) ** 2
    if path.returns_SK is None:
        excess_Z = np.append(path.chances_S * (1 - path.chances_S), 0.0) - path.variances_Z
        squares_S -= (excess_Z[1:] + excess_Z[:-1]) / num_continuations
    return float(path.masses_S @ (squares_S + path.residual * shares_S))


def cuts_tokens(path: Path, num_cuts: int, num_continuations: int) -> float:
    """Sampled besides the rollout, as the mean over the places of the cuts."""
    num_inner = len(path.starts_S) - 1
    if num_inner == 0:
        return 0.0
    left = float((path.num_tokens - path.starts_S[1:]).mean())
    return num_continuations * min(num_cuts, num_inner) * left
