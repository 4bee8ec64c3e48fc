"""Values of a critic that sees the true answer, as nothing that the policy does changes it.

A choice is compared with the token of the answer that a pointer looks up at its place. That is one
rule for all problems; without the answer, the right choice must be found for each fact. The pointer
needs no reward: it follows what the policy is about to say. The cost of a miss takes five numbers,
learned from a few dozen rewards. It serves as far as the answer carries results of the way; of a
single number it knows the last choices alone.

A critic that knows more than the policy while training is an asymmetric one (arXiv:1710.06542). A
baseline may depend on all that is independent of the action given the state (arXiv:1506.02438).
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from vineppo.config.schema import Count
from vineppo.recipes.choice_values import (
    SURE,
    ChoiceBatch,
    ChoiceModel,
    Choices,
    LearnedFromChoices,
)

MOST_ANSWER = 32  # tokens of the answer that are looked at
MOST_STEPS = 64  # of a response that are told apart
STEPS_UNIT = 16
NOWHERE = 0.3  # π(y) below which it looks nowhere
FIRST_NOWHERE = -3.0  # so that it looks everywhere at first, in nats
FLOOR = 0.01  # of π(y) in the logarithm
FASTER = 60  # than the map from hidden states the few other numbers learn


class Pointer(ChoiceModel):
    """The value after choice u, of step k, by the number of misses m to be expected.

        V = σ(logit V(s_0) + w_0 + w_1 k − exp(w_2 + w_3 k) E[Σ m])
        m(a) = Σ_j α_j 1[a ≠ y_j],   α = softmax_j(u_jᵀ h + v_jk), j = 0 … R − 1 and nowhere

    A miss is another token than the answer's y_j that is looked at,

    by a pointer network (arXiv:1506.03134) with a sentinel (arXiv:1609.07843). E[Σ m] is the sum of
    those so far and of those expected in the steps to come. The policy expected these there in the
    problem's other rollouts, which this rollout's choices do not change.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__(hidden_size)
        self.states = nn.Linear(hidden_size, MOST_ANSWER + 1, bias=False)
        self.places = nn.Embedding(MOST_STEPS, MOST_ANSWER + 1)
        self.link = nn.Parameter(torch.zeros(4))
        nn.init.zeros_(self.states.weight)
        nn.init.zeros_(self.places.weight)
        nn.init.constant_(self.places.weight[:, -1], FIRST_NOWHERE)

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """The few numbers learn faster than the map from hidden states."""
        few = [self.places.weight, self.link]
        return [
            {"params": [self.states.weight]},
            {"params": few, "lr": FASTER * learning_rate, "weight_decay": 0.0},
        ]

    def values(self, batch: ChoiceBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Δ_u = q(a_u) − E_π[q], q(a) the value after a."""
        misses_BUL, taken_BU, to_come_BU = self.misses(batch)
        before_BU = taken_BU.cumsum(-1) - taken_BU + to_come_BU
        after_BUL = self.logits(batch, before_BU[..., None] + misses_BUL).sigmoid()
        return batch.rewards_B, batch.of_chosen(batch.centred(after_BUL))

    def losses(self, batch: ChoiceBatch, rewards_BU: torch.Tensor) -> torch.Tensor:
        _, taken_BU, to_come_BU = self.misses(batch)
        logits_BU = self.logits(batch, (taken_BU.cumsum(1) + to_come_BU)[..., None])[..., 0]
        return nn.functional.binary_cross_entropy_with_logits(
            logits_BU, rewards_BU, reduction="none"
        )

    def loss_without_rewards(self, batch: ChoiceBatch) -> torch.Tensor:
        """−log(Σ_j α_j π(y_j)), π of nowhere a constant."""
        attention_BUR, is_match_BUKR = self.attention(batch)
        policy_BUK1 = batch.logprobs_BUL[..., :-1, None].exp()
        said_BUR = nn.functional.pad((policy_BUK1 * is_match_BUKR).sum(2), (0, 1), value=NOWHERE)
        losses_BU = -((attention_BUR * said_BUR).sum(-1) + FLOOR).log() * batch.is_there_BU
        return losses_BU.sum() / batch.is_there_BU.sum().clamp(min=1)

    def misses(self, batch: ChoiceBatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """m of the candidates and, last, any other token [B, U, L]; m taken, and Σ m to come."""
        attention_BUR, is_match_BUKR = self.attention(batch)
        attention_BU1R = attention_BUR[:, :, None, :-1]
        is_match_BULR = nn.functional.pad(is_match_BUKR, (0, 0, 0, 1))
        misses_BUL = (attention_BU1R * ~is_match_BULR).sum(-1)
        expected_BU = (batch.logprobs_BUL.exp() * misses_BUL).sum(-1) * batch.is_there_BU
        steps_BU = batch.steps_BU.clamp(max=MOST_STEPS - 1)
        by_step_BK = expected_BU.new_zeros(len(expected_BU), MOST_STEPS)
        by_step_BK = by_step_BK.scatter_add(1, steps_BU, expected_BU)
        later_BK = by_step_BK.sum(1, keepdim=True) - by_step_BK.cumsum(1)
        to_come_BU = batch.of_the_others(later_BK).gather(1, steps_BU)
        return misses_BUL, batch.of_chosen(misses_BUL), to_come_BU

    def attention(self, batch: ChoiceBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """α [B, U, R + 1], the last of nowhere, and 1[a = y_j] [B, U, K, R]."""
        answers_BR = batch.answers_BR[:, :MOST_ANSWER]
        steps_BU = batch.steps_BU.clamp(max=MOST_STEPS - 1)
        places_BUR = self.states(batch.hidden_BUH * self.scale_H) + self.places(steps_BU)
        nowhere_BU1 = places_BUR[..., MOST_ANSWER:]
        places_BUR = places_BUR[..., : answers_BR.shape[1]]
        places_BUR = places_BUR.masked_fill((answers_BR < 0)[:, None], -torch.inf)
        attention_BUR = torch.cat([places_BUR, nowhere_BU1], -1).softmax(-1)
        return attention_BUR, batch.ids_BUK[..., None] == answers_BR[:, None, None]

    def logits(self, batch: ChoiceBatch, misses_BUL: torch.Tensor) -> torch.Tensor:
        steps_BU1 = batch.steps_BU[..., None] / STEPS_UNIT
        root_B11 = torch.logit(batch.rewards_B.clamp(1e-3, 1 - 1e-3))[:, None, None]
        weight_BU1 = (self.link[2] + self.link[3] * steps_BU1).exp()
        return root_B11 + self.link[0] + self.link[1] * steps_BU1 - weight_BU1 * misses_BUL


class Privileged(LearnedFromChoices):
    """By a `Pointer` into the true answer."""

    @dataclass(frozen=True, kw_only=True)
    class Config(LearnedFromChoices.Config):
        num_steps: Count = 32

    reads_answer = True
    learns_alone = True
    learns_by_problem = True
    doubt = 0.005

    def told_apart(self, choices: Choices, answer_R: tuple[int, ...]) -> Choices:
        """Where tokens of the answer could follow: few of all choices."""
        is_match_UK = np.isin(choices.ids_UK, answer_R[:MOST_ANSWER])
        matches_U = (np.exp(choices.logprobs_UK) * is_match_UK).sum(-1)
        kept_U = matches_U > 1 - SURE
        parts = {
            field.name: getattr(choices, field.name)[kept_U]
            for field in fields(Choices)
            if field.name.endswith(("_U", "_UK", "_UH"))
        }
        return replace(choices, **parts)

    def new_model(self, hidden_size: int, num_token_ids: int) -> Pointer:  # noqa: ARG002
        return Pointer(hidden_size)
