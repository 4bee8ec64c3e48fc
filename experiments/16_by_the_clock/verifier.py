"""The true answer of a sheet, used simply: as partial credit, and as a verdict on every result."""

from dataclasses import dataclass

from vineppo.credit import Credit


def reward(question, answer, response):  # noqa: ARG001
    """A tenth for every right digit of the answer: 6 of 8 pass (more than 0.5), 5 do not."""
    stated = response.rpartition("####")[2]
    return sum(map(str.__eq__, stated, answer)) / 10 if len(stated) == len(answer) else 0.0


@dataclass(frozen=True)
class Verdicts(Credit):
    """A = 1[the line's result is right] − the other rollouts' share of right ones; 0 elsewhere.

    Line n of those that state a result is compared with digit n of the answer.
    """

    compares_rollouts = True

    def advantages(self, rollouts_G):
        verdicts_G = [verdicts(rollout) for rollout in rollouts_G]
        advantages_G = []
        for number, rollout in enumerate(rollouts_G):
            advantages_T = [0.0] * len(rollout.response_ids)
            for result, (span, is_right) in enumerate(verdicts_G[number]):
                others = [
                    found[result][1]
                    for other, found in enumerate(verdicts_G)
                    if other != number and result < len(found)
                ]
                share = sum(others) / len(others) if others else is_right
                for token in range(span.start, span.end):
                    advantages_T[token] = is_right - share
            advantages_G.append(advantages_T)
        return advantages_G


def verdicts(rollout):
    """The span of every line that states a result, and whether it is the right one."""
    lines = zip(rollout.spans_S, rollout.text.split("\n"), strict=False)
    stated = [(span, line[-1]) for span, line in lines if line[-2:-1] == "="]
    return [
        (span, digit == right)
        for (span, digit), right in zip(stated, rollout.problem.answer, strict=False)
    ]
