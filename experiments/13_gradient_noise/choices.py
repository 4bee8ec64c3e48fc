"""The demonstrations' own value after each candidate of the policy's choices, as a martingale."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from vineppo.recipes.choice_values import Choices as Record
from vineppo.recipes.choice_values import choices_of, set_differences
from vineppo.segment import response_text
from vineppo.token_scores import TokenScores
from vineppo.types import Rollout
from vineppo.values import ValuePredictor

LIKELY = 1e-4  # of a candidate, below which it counts as leaving the track


class Choices(ValuePredictor):
    """Δ(a) = V(s a) − Σ_a π(a) V(s a), V by `Demonstrator.value`."""

    gives = "tokens"
    is_martingale = True
    num_candidates = 32

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._demonstrator = self.config.task.demonstrator()
        self._tokenizer = self.config.task.build_tokenizer()

    def choices_of(self, scores: TokenScores, rollouts: Sequence[Rollout]) -> list[Record]:
        return choices_of(scores, rollouts)

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        text = cache(lambda ids: response_text(self._tokenizer, ids))
        value = cache(
            lambda question, text: self._demonstrator.value(
                self._demonstrator.chain_of(question), text
            )
        )
        for rollout in rollouts:
            choices, question = rollout.choices, rollout.problem.question
            after_UL = np.zeros((len(choices.positions_U), choices.ids_UK.shape[1] + 1))
            for u, position in enumerate(choices.positions_U):
                for k in np.flatnonzero(choices.logprobs_UK[u] > np.log(LIKELY)):
                    ids = *rollout.response_ids[:position], int(choices.ids_UK[u, k])
                    after_UL[u, k] = value(question, text(ids))
            probs_UK = np.exp(choices.logprobs_UK)
            mean_U1 = (probs_UK * after_UL[:, :-1]).sum(-1, keepdims=True)
            differences_T = set_differences(rollout, self.name, choices, after_UL - mean_U1)
            root = value(question, "")
            self.set_values([rollout], [(root + np.cumsum(differences_T) - differences_T).tolist()])
