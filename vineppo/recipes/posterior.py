"""Values as products of probability ratios: how the policy would choose, had it been successful.

By Bayes' rule the value of a 0/1 reward grows with every token by one factor,

    V(s_{t+1}) / V(s_t) = π(a_t | s_t, success) / π(a_t | s_t) = ρ_t

so that a small model of the *posterior policy* π(· | s, success) is a value of every state. It is
fitted to nothing but the rewards of earlier rollouts. It can say nothing where the policy is sure
of a token: values change only where something was decided. As Σ_a π(a) ρ(a) = 1, they are a
martingale under the policy, however badly they are fitted: what `recipes/martingale.py` asks for.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn

from vineppo.config.schema import Count
from vineppo.recipes.choice_values import ChoiceBatch, ChoiceModel, LearnedFromChoices
from vineppo.types import derive_seed

MOST_DENSE = 4096  # tokens, up to which all are scored and not the candidates alone
MOST = 0.98  # the largest value in the loss, where 1 would be lost at once


class Tilt(ChoiceModel):
    """log π(a | s, success) − log π(a | s) + const = e_aᵀ relu(W h + b), and log V of the root.

    e starts at 0: no token says anything, and the value is the mean reward everywhere.
    """

    def __init__(self, hidden_size: int, num_token_ids: int, size: int, seed: int) -> None:
        super().__init__(hidden_size)
        self.inner = nn.Linear(hidden_size, size)
        self.tokens = nn.Embedding(num_token_ids, size)
        self.root = nn.Linear(hidden_size, 1, bias=False)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            bound = hidden_size**-0.5
            self.inner.weight.uniform_(-bound, bound, generator=generator)
            self.inner.bias.zero_()
            self.tokens.weight.zero_()
            self.root.weight.zero_()

    def values(self, batch: ChoiceBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """By `log_roots` and `bounded_differences`."""
        roots_B = self.log_roots(batch).exp()
        ratios_BUL = self.log_ratios(batch)
        return roots_B, bounded_differences(
            roots_B, ratios_BUL, batch.logprobs_BUL, batch.chosen_BU
        )

    def losses(self, batch: ChoiceBatch, rewards_BU: torch.Tensor) -> torch.Tensor:
        """log V(s_0) + Σ log ρ, kept below log `MOST`."""
        taken_BU = batch.of_chosen(self.log_ratios(batch))
        log_values_BU = self.log_roots(batch)[:, None] + taken_BU.cumsum(-1)
        # Above the bound the value is the bound's, with the gradient that leads below it.
        bound_BU = log_values_BU.clamp(max=math.log(MOST))
        log_values_BU = log_values_BU + (bound_BU - log_values_BU).detach()
        return -(rewards_BU * log_values_BU + (1 - rewards_BU) * torch.log1p(-log_values_BU.exp()))

    def log_ratios(self, batch: ChoiceBatch) -> torch.Tensor:
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

    def log_roots(self, batch: ChoiceBatch) -> torch.Tensor:
        """log V(s_0) = log(mean reward) + wᵀ(h − mean h)/√H, at most log `MOST`, [B].

        What all prompts have in common would move them all, H weights at a time.
        """
        centred_BH = (batch.root_BH - self.root_H) * self.scale_H
        tilt_B = self.root(centred_BH).squeeze(-1) / math.sqrt(len(self.root_H))
        return (torch.log(batch.rewards_B) + tilt_B).clamp(max=math.log(MOST))


class Posterior(LearnedFromChoices):
    """Δ_u = q(a_u) − Σ_a π(a|s_u) q(a), q(a) = min(1, V(s_u) ρ(a)).

    Without the bound the values are the products of ratios; with it, too, E[Δ_u | s_u] = 0.

    Source: implicit process rewards (arXiv:2412.01981) read a reward as a sum of log-ratios of
    whole models. Here the ratios are of values, and their model is a layer on the policy's own
    states. The differences are a control variate.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(LearnedFromChoices.Config):
        size: Count = 128  # of the model's one hidden layer

    def new_model(self, hidden_size: int, num_token_ids: int) -> Tilt:
        seed = derive_seed(self.config.seed, self.column)
        return Tilt(hidden_size, num_token_ids, self.options.size, seed)


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
