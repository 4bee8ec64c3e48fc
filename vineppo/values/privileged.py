"""Values of a critic that sees the true answer, as nothing that the policy does changes it.

A choice is compared with the token of the answer that a pointer looks up at its place: one rule
for all problems, where without the answer it must be found for each fact which choice is right. So
a few dozen rewards teach what takes the posterior's ratios thousands, as far as the answer carries
results of the way; of a single number it knows the last choices alone.

A critic that knows more than the policy while training is an asymmetric one (arXiv:1710.06542); a
baseline may depend on all that is independent of the action given the state (arXiv:1506.02438).
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from vineppo.types import Choices
from vineppo.values.choice_values import ChoiceBatch, ChoiceModel, LearnedFromChoices
from vineppo.values.policy_pass import SURE

MOST_ANSWER = 32  # tokens of the answer that are looked at
MOST_STEPS = 64  # of a response that are told apart
FIRST_MATCH = 3.0  # the evidence of a match, in nats, before anything is learned
FASTER = 10  # than the map from hidden states the few other numbers learn
STEPS_UNIT = 16


class Pointer(ChoiceModel):
    """V after evidence E at step k = σ(logit V(s_0) + E · exp(w_0 + w_1 k) + w_2 + w_3 k).

        E  = Σ_u r(a_u) − E_π[r]
        r(a) = c Σ_j α_j 1[a = y_j],   α = softmax_j(u_jᵀ h + v_jk)

    y are the answer's tokens; a pointer network (arXiv:1506.03134) looks one up at every choice.
    u, v and w start at 0: a token that stands in the answer is a little more likely to be right.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__(hidden_size)
        self.states = nn.Linear(hidden_size, MOST_ANSWER, bias=False)
        self.places = nn.Embedding(MOST_STEPS, MOST_ANSWER)
        self.match = nn.Parameter(torch.tensor(FIRST_MATCH))
        self.link = nn.Parameter(torch.zeros(4))
        nn.init.zeros_(self.states.weight)
        nn.init.zeros_(self.places.weight)

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """The few numbers learn faster than the map from hidden states."""
        few = [self.places.weight, self.match, self.link]
        return [{"params": [self.states.weight]}, {"params": few, "lr": FASTER * learning_rate}]

    def values(self, batch: ChoiceBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Δ_u = q(a_u) − E_π[q], q(a) the value after a."""
        evidence_BUL = self.evidence(batch)
        taken_BU = batch.of_chosen(evidence_BUL)
        before_BU = taken_BU.cumsum(-1) - taken_BU
        after_BUL = self.logits(batch, before_BU[..., None] + evidence_BUL).sigmoid()
        return batch.rewards_B, batch.of_chosen(batch.centred(after_BUL))

    def losses(self, batch: ChoiceBatch, rewards_B: torch.Tensor) -> torch.Tensor:
        taken_BU1 = batch.of_chosen(self.evidence(batch))[..., None]
        logits_BU = self.logits(batch, taken_BU1.cumsum(1))[..., 0]
        rewards_BU = rewards_B[:, None].expand_as(logits_BU)
        return nn.functional.binary_cross_entropy_with_logits(
            logits_BU, rewards_BU, reduction="none"
        )

    def evidence(self, batch: ChoiceBatch) -> torch.Tensor:
        """r(a) − E_π[r] of the candidates and, last, of any other token, [B, U, L]."""
        places_BUR = self.states(batch.hidden_BUH * self.scale_H)
        places_BUR = places_BUR + self.places(batch.steps_BU.clamp(max=MOST_STEPS - 1))
        answers_BR = batch.answers_BR[:, :MOST_ANSWER]
        places_BUR = places_BUR[..., : answers_BR.shape[1]]
        is_there_B1R = (answers_BR >= 0)[:, None]
        attention_BUR = places_BUR.masked_fill(~is_there_B1R, -1e9).softmax(-1)
        is_match_BUKR = batch.ids_BUK[..., None] == answers_BR[:, None, None]
        matches_BUK = (attention_BUR[:, :, None] * is_match_BUKR).sum(-1)
        return batch.centred(nn.functional.pad(self.match * matches_BUK, (0, 1)))

    def logits(self, batch: ChoiceBatch, evidence_BUL: torch.Tensor) -> torch.Tensor:
        steps_BU1 = batch.steps_BU[..., None] / STEPS_UNIT
        root_B11 = torch.logit(batch.rewards_B.clamp(1e-3, 1 - 1e-3))[:, None, None]
        weight_BU1 = (self.link[0] + self.link[1] * steps_BU1).exp()
        return root_B11 + weight_BU1 * evidence_BUL + self.link[2] + self.link[3] * steps_BU1


class Privileged(LearnedFromChoices):
    """By a `Pointer` into the true answer."""

    reads_answer = True

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
