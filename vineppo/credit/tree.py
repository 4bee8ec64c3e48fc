"""SPO-tree: the rollouts of a problem are the leaves of a tree, which values itself.

Segment Policy Optimization (arXiv:2505.23564). Every node has `branching[level]` children; a level
is `tokens_per_level` tokens, the last one the rest of the budget (`rollouts.submit_trees`). Rollout
i of the G of a problem is leaf i, so that the leaves below a node stand together. A response that
ends above the last level stands for all leaves that it would have had, in copies: means over leaves
are then means of the children, and the mean reward is the policy's.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import isclose
from operator import mul
from statistics import fmean, pstdev

from vineppo.config.schema import CreditConfig, TreeCredit
from vineppo.credit.groups import group_returns
from vineppo.types import Rollout

STD_EPSILON = 1e-8


def segment_advantage(
    tree: TreeCredit, rewards_G: Sequence[float], index: int, level: int
) -> float:
    """A = V(child) − V(parent) of rollout `index` on a level, V the mean reward of a node's leaves.

    V(parent) is the mean of all b children, the own one with them: in expectation (1 − 1/b) of the
    advantage. `baseline` "others" is V(child) less the mean of the b − 1 others, which is
    b/(b − 1) · A. `normalize_std` divides by the children's deviation (the population's) + 1e-8.

    Branching [2, 2], rewards [1, 0, 1, 1]: V of the two nodes is 0.5 and 1, of the root 0.75. Of
    rollout 0: 0.5 − 0.75 and 1 − 0.5; with "others" 0.5 − 1 and 1 − 0.
    """
    each, num_children = leaves_below(tree)[level], tree.branching[level]
    first = index - index % (each * num_children)
    starts = range(first, first + each * num_children, each)
    values = [fmean(rewards_G[start : start + each]) for start in starts]
    child, parent = values[(index - first) // each], fmean(values)
    if isclose(child, parent, abs_tol=1e-9):  # an exact 0 is what trains nothing
        return 0.0
    factor = num_children / (num_children - 1) if tree.baseline == "others" else 1.0
    divisor = pstdev(values) + STD_EPSILON if tree.normalize_std else 1.0
    return factor * (child - parent) / divisor


def tree_credit(config: TreeCredit, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """`segment_advantage` on every token of its segment, for the leaves in their order."""
    rewards_G = group_returns(rollouts_G)
    assert len(rewards_G) == leaves_below(config)[0] * config.branching[0], "a tree is incomplete"
    advantages_G = []
    for index, rollout in enumerate(rollouts_G):
        levels_T = token_levels(config, len(rollout.response_ids))
        of_level = [
            segment_advantage(config, rewards_G, index, level) for level in range(levels_T[-1] + 1)
        ]
        advantages_G.append([of_level[level] for level in levels_T])
    return advantages_G


def token_levels(tree: TreeCredit, length: int) -> list[int]:
    """The level of each token: with 3 levels of 2 tokens and 7 tokens 0, 0, 1, 1, 2, 2, 2."""
    return [min(t // tree.tokens_per_level, len(tree.branching) - 1) for t in range(length)]


def leaves_below(tree: TreeCredit) -> list[int]:
    """How many leaves a node of each level has: branching [4, 3, 2] gives 6, 2 and 1."""
    return [1, *accumulate(reversed(tree.branching[1:]), mul)][::-1]


def sampled_tokens(credit: CreditConfig, rollout: Rollout) -> list[bool]:
    """Which tokens were sampled for this rollout; of a tree's leaves the first has the shared ones.

    An environment's never were.
    Branching [2, 2], 2 tokens a level: of rollout 0 all, of rollout 1 all but its first two.
    """
    if not isinstance(credit, TreeCredit):
        return rollout.is_action_T
    below = leaves_below(credit)
    levels_T = token_levels(credit, len(rollout.response_ids))
    return [rollout.rollout_index % below[level] == 0 for level in levels_T]


def trained_of_tree(tree: TreeCredit, rollout: Rollout) -> list[bool]:
    """Those of an advantage that is not 0; with `train_shared` "once", of the first leaf alone."""
    sampled_T = sampled_tokens(tree, rollout)
    return [
        advantage != 0 and (is_sampled or tree.train_shared == "by_leaves")
        for advantage, is_sampled in zip(rollout.tokens_T["advantages"], sampled_T, strict=True)
    ]
