"""A small tree of choices whose every rollout can be enumerated, and martingales along it."""

from itertools import product

import numpy as np
import torch

from support.rollouts import rollout, terminal
from vineppo.recipes.posterior import bounded_differences

DEPTH = 3


def fed(reward, differences_T, root=0.0):
    found = rollout(terminal(reward, len(differences_T)))
    found.tokens_T["differences/fed"] = tuple(differences_T)
    found.tokens_T["values/fed"] = (root,) * len(differences_T)
    found.values_from = "fed"
    return found


class Tree:
    """A policy of DEPTH binary choices, a reward of its leaves, and ratios that know nothing."""

    def __init__(self, seed):
        draw = np.random.default_rng(seed)
        self.first = {
            p: draw.uniform(0.1, 0.9) for n in range(DEPTH) for p in product((0, 1), repeat=n)
        }
        self.tilt = {p: draw.uniform(0.0, 1.0) for p in self.first}
        self.reward = {leaf: draw.uniform() for leaf in product((0, 1), repeat=DEPTH)}
        self.root = draw.uniform()

    def probs(self, prefix):
        return np.array([self.first[prefix], 1 - self.first[prefix]])

    def probability(self, leaf):
        return np.prod([self.probs(leaf[:t])[a] for t, a in enumerate(leaf)])

    def score(self, leaf, t):
        """∂ log π(a_t)/∂ logit of the first choice at its state."""
        return (1 - self.first[leaf[:t]]) if leaf[t] == 0 else -self.first[leaf[:t]]

    def rollout(self, leaf, drift=0.0):
        """Its differences by the tree's arbitrary ratios; a drift makes them no martingale."""
        probs = np.array([self.probs(leaf[:t]) for t in range(DEPTH)])
        tilted = np.array([[self.tilt[leaf[:t]], 1 - self.tilt[leaf[:t]]] for t in range(DEPTH)])
        ratios, probs = torch.tensor(tilted / probs)[None].log(), torch.tensor(probs)[None].log()
        root = torch.tensor([self.root], dtype=torch.float64)
        differences = bounded_differences(root, ratios, probs, torch.tensor([leaf]))[0].tolist()
        drifts = [drift * (choice == 0) for choice in leaf]
        moved = [sum(pair) for pair in zip(differences, drifts, strict=True)]
        return fed(self.reward[leaf], moved, self.root)

    def gradients(self, advantages_of, group_size):
        """E of Σ_t A_t ∂ log π(a_t) over all groups: a number a state."""
        expected = dict.fromkeys(self.first, 0.0)
        for leaves in product(self.reward, repeat=group_size):
            weight = np.prod([self.probability(leaf) for leaf in leaves]) / group_size
            for leaf, advantages_T in zip(leaves, advantages_of(leaves), strict=True):
                for t in range(DEPTH):
                    expected[leaf[:t]] += weight * advantages_T[t] * self.score(leaf, t)
        return np.array([*expected.values()])
