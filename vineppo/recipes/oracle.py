"""The value of worded chains and sheets in closed form, at the policy's skill in hard facts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import Any, Literal

from vineppo.config.require import require
from vineppo.config.schema import Positive, PredictorConfig
from vineppo.recipes.arithmetic import Fact
from vineppo.recipes.worded import WordedTask
from vineppo.segment import response_text
from vineppo.types import Rollout
from vineppo.values import ValuePredictor


class Oracle(ValuePredictor):
    """The probability that the rest comes out right, of known p_f: `Demonstrator.value`.

    p_f is the share of right results where a rollout met the hard fact f and it counted. Only
    *earlier* iterations count, so no rollout's own return is in its baseline. A count is worth half
    after `half_life` iterations; the demonstrator's probability counts as `PRIOR` results. All
    states before f share the error in p_f, which cancels in their differences.

    With `of: 'policy'` p_f does not lag. It is the policy's probability of the right result, its
    mean over these rollouts, for easy facts too: π(result) of right ones, or else 1 − π(result) of
    wrong ones. The count stands in for hard facts that no rollout met. Wording must not matter: a
    right result of an operation that the problem did not ask counts as lost, which trained policies
    make common (experiments/13_gradient_noise).
    """

    PRIOR = 4.0
    is_exact = True

    @dataclass(frozen=True)
    class Config(PredictorConfig):
        half_life: Positive = 5.0  # iterations after which a measured result counts half
        of: Literal["results", "policy"] = "results"  # what p_f is the mean of

        def check(self, key: str, config: Any) -> None:
            require(
                isinstance(config.task, WordedTask),
                f"task.kind must be 'worded' for {key} (an oracle knows no other), got "
                f"{config.task.kind!r}",
            )
            require(
                config.reward_model is None,
                f"reward_model must be null for {key} (an oracle knows the verifier's reward "
                "alone), got a table",
            )
            require(
                self.of == "results" or not config.task.repair_probability,
                f"task.repair_probability must be 0 for {key}.of 'policy', got "
                f"{config.task.repair_probability}",
            )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        config = self.config
        assert isinstance(config.task, WordedTask), "checked with the config"
        self._demonstrator = config.task.demonstrator()
        self._tokenizer = config.task.build_tokenizer()
        self._keep = 0.5 ** (1 / self.options.half_life)
        p = 1 - config.task.wrong_probability * (1 - config.task.repair_probability)
        self._counts: dict[Fact, tuple[float, float]] = dict.fromkeys(  # right results, and all
            self._demonstrator.wrong_results, (self.PRIOR * p, self.PRIOR)
        )

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        skill = {fact: right / met for fact, (right, met) in self._counts.items()}
        if self.options.of == "policy":
            met = [one for rollout in rollouts for one in self._policy_skill(rollout)]
            for wanted in (False, True):  # right results replace what wrong ones tell
                found: dict[Fact, list[float]] = {}
                for fact, is_right, p in met:
                    if is_right == wanted:
                        found.setdefault(fact, []).append(p)
                skill |= {fact: fmean(of) for fact, of in found.items()}

        def values(rollout: Rollout) -> list[float]:
            chain = self._demonstrator.chain_of(rollout.problem.question)
            starts = [span.start for span in rollout.spans_S]
            texts = [self._text(rollout, start) for start in starts]
            return [self._demonstrator.value(chain, text, skill) for text in texts]

        self.set_values(rollouts, [values(rollout) for rollout in rollouts])

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        """Counts the hard facts that the rollouts met on the track."""
        for fact, (right, met) in self._counts.items():
            self._counts[fact] = self._keep * right, self._keep * met
        for rollout in rollouts:
            ends = [*(span.start for span in rollout.spans_S[1:]), len(rollout.response_ids)]
            texts = [self._text(rollout, end) for end in ends]
            chain = self._demonstrator.chain_of(rollout.problem.question)
            for fact, is_right in self._demonstrator.outcomes(chain, texts):
                if fact in self._counts:
                    right, met = self._counts[fact]
                    self._counts[fact] = right + is_right, met + 1
        skills = [right / met for right, met in self._counts.values()]
        return {f"values/{self.name}/skill": sum(skills) / len(skills)}

    def _policy_skill(self, rollout: Rollout) -> Iterator[tuple[Fact, bool, float]]:
        """The facts that a rollout met on the track, whether rightly, and p of the right result."""
        chain = self._demonstrator.chain_of(rollout.problem.question)
        texts = [self._text(rollout, end) for end in range(len(rollout.response_ids) + 1)]
        stated = [end for end, before in enumerate(texts[:-1], 1) if before.endswith("=")]
        outcomes = self._demonstrator.outcomes(chain, [*(texts[end] for end in stated), texts[-1]])
        for end, (fact, is_right) in zip(stated, outcomes, strict=False):
            operation, left, right = fact
            if texts[end - 1].endswith(f"{left}{operation}{right}="):
                p = exp(rollout.logprobs_T[end - 1])
                yield fact, is_right, p if is_right else 1 - p

    def _text(self, rollout: Rollout, end: int) -> str:
        return response_text(self._tokenizer, rollout.response_ids[:end])

    def state(self) -> dict[str, Any]:
        return {"counts": [[*fact, *counts] for fact, counts in self._counts.items()]}

    def set_state(self, state: dict[str, Any]) -> None:
        for operation, left, right, *counts in state["counts"]:
            self._counts[operation, left, right] = tuple(counts)
