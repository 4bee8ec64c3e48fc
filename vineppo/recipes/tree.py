"""SPO-tree: the rollouts of a problem are the leaves of a tree, which values itself.

Segment Policy Optimization (arXiv:2505.23564). Every node has `branching[level]` children; a level
is `tokens_per_level` tokens, the last one the rest of the budget. Rollout i of the G of a problem
is leaf i, so that the leaves below a node stand together. A response that ends above the last level
stands, in copies, for all leaves that it would have had. Means over leaves are then means of the
children, and the mean reward is the policy's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import isclose, prod
from operator import mul
from statistics import fmean, pstdev
from typing import Annotated, Any, Literal

from pydantic import Field

from vineppo.config.require import require
from vineppo.config.schema.scalars import Count
from vineppo.credit import Credit
from vineppo.credit.groups import group_returns
from vineppo.engine import Completion
from vineppo.rollouts import (
    PendingRollouts,
    Prompt,
    Sampler,
    finished_rollout,
    graded,
    submit_samples,
)
from vineppo.types import Rollout

STD_EPSILON = 1e-8


@dataclass(frozen=True)
class TreeCredit(Credit):
    """`segment_advantage` on every token of its segment; `segmenter` cuts for tables alone."""

    shares_tokens = True

    # Children of a node, level by level.
    branching: Annotated[tuple[Annotated[int, Field(ge=2)], ...], Field(min_length=1)]
    tokens_per_level: Count  # of the last level: what is left of `sampling.max_tokens`
    baseline: Literal["mean", "others"] = "mean"  # of all children of a node, or all but its own
    normalize_std: bool = False  # by the deviation of a node's children
    # How often a segment trains: "once", or "by_leaves", as often as there are leaves below it.
    train_shared: Literal["once", "by_leaves"] = "once"

    def check(self, key: str, config: Any) -> None:
        levels, num_samples = len(self.branching), config.rollouts.num_samples
        require(
            num_samples == prod(self.branching),
            f"rollouts.num_samples must be the product of {key}.branching (the leaves of a tree) = "
            f"{prod(self.branching)}, got {num_samples}",
        )
        require(
            (levels - 1) * self.tokens_per_level < config.sampling.max_tokens,
            f"{key}.tokens_per_level must leave tokens of sampling.max_tokens = "
            f"{config.sampling.max_tokens} to the last of {levels} levels, got "
            f"{self.tokens_per_level}",
        )
        require(
            config.reference.kl_in == "loss",
            f"reference.kl_in must be 'loss' for {key}.kind 'tree' (a node's value holds no KL), "
            "got 'reward'",
        )
        require(
            config.task.environment is None,
            f"task.environment must be null for {key}.kind 'tree' (its levels are of tokens, not "
            "of turns)",
        )
        require(
            config.optimization.resampling is None,
            f"optimization.resampling must be null for {key}.kind 'tree' (its rollouts stand for "
            f"segments that they share), got {config.optimization.resampling!r}",
        )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        """For the leaves in their order."""
        rewards_G = group_returns(rollouts_G)
        assert len(rewards_G) == prod(self.branching), "a tree is incomplete"
        advantages_G = []
        for index, rollout in enumerate(rollouts_G):
            levels_T = self.token_levels(len(rollout.response_ids))
            of_level = [
                segment_advantage(self, rewards_G, index, level)
                for level in range(levels_T[-1] + 1)
            ]
            advantages_G.append([of_level[level] for level in levels_T])
        return advantages_G

    def token_levels(self, length: int) -> list[int]:
        """The level of each token: with 3 levels of 2 tokens and 7 tokens 0, 0, 1, 1, 2, 2, 2."""
        return [min(t // self.tokens_per_level, len(self.branching) - 1) for t in range(length)]

    def leaves_below(self) -> list[int]:
        """How many leaves a node of each level has: branching [4, 3, 2] gives 6, 2 and 1."""
        return [1, *accumulate(reversed(self.branching[1:]), mul)][::-1]

    def sampled_tokens(self, rollout: Rollout) -> list[bool]:
        """The first leaf has the tokens that leaves share.

        Branching [2, 2], 2 tokens a level: of rollout 0 all, of rollout 1 all but its first two.
        """
        below = self.leaves_below()
        levels_T = self.token_levels(len(rollout.response_ids))
        return [rollout.rollout_index % below[level] == 0 for level in levels_T]

    def trained_tokens(self, rollout: Rollout) -> list[bool]:
        """Those of an advantage that is not 0; with `train_shared` "once", of the first leaf."""
        by_leaves = self.train_shared == "by_leaves"
        return [
            advantage != 0 and (is_sampled or by_leaves)
            for advantage, is_sampled in zip(
                rollout.tokens_T["advantages"], self.sampled_tokens(rollout), strict=True
            )
        ]

    def submit(
        self,
        sampler: Sampler,
        prompts_P: Sequence[Prompt],
        stream: tuple[int | str, ...],
        done: Callable[[Rollout], None] = lambda _: None,
    ) -> PendingRollouts:
        """Queues a tree of responses of every prompt; its leaves are the rollouts.

        A node's children are queued as soon as it is there. A response that ends above the last
        level is graded once and becomes as many rollouts as a node there has leaves. Child k of a
        node has the random numbers of (*stream, problem id, level, the node's first leaf, k).
        """
        pending, below = PendingRollouts(), self.leaves_below()

        def grow(prompt: Prompt, first_leaf: int, level: int, behind: Completion) -> None:
            is_last = level == len(self.branching) - 1
            left = sampler.sampling.max_tokens - len(behind.token_ids)

            def finish(child: int, completion: Completion) -> None:
                whole = Completion(
                    (*behind.token_ids, *completion.token_ids),
                    (*behind.logprobs_T, *completion.logprobs_T),
                    completion.finish_reason,
                )
                leaf = first_leaf + child * below[level]
                if whole.finish_reason == "length" and not is_last:
                    grow(prompt, leaf, level + 1, whole)
                    return
                once = graded(sampler, prompt, (), leaf, whole)
                for index in range(leaf, leaf + below[level]):
                    rollout = finished_rollout(sampler, prompt, replace(once, index=index))
                    pending.add(rollout, once.reward)
                    done(rollout)

            submit_samples(
                sampler,
                (*prompt.token_ids, *behind.token_ids),
                replace(sampler.sampling, max_tokens=left if is_last else self.tokens_per_level),
                range(self.branching[level]),
                (*stream, prompt.problem.id, level, first_leaf),
                finish,
                with_logprobs=True,
            )

        for prompt in prompts_P:
            grow(prompt, 0, 0, Completion((), (), "length"))
        return pending


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
    each, num_children = tree.leaves_below()[level], tree.branching[level]
    first = index - index % (each * num_children)
    starts = range(first, first + each * num_children, each)
    values = [fmean(rewards_G[start : start + each]) for start in starts]
    child, parent = values[(index - first) // each], fmean(values)
    if isclose(child, parent, abs_tol=1e-9):  # an exact 0 is what trains nothing
        return 0.0
    factor = num_children / (num_children - 1) if tree.baseline == "others" else 1.0
    divisor = pstdev(values) + STD_EPSILON if tree.normalize_std else 1.0
    return factor * (child - parent) / divisor
