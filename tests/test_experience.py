"""Sampling beside the rollouts, the work meanwhile, and the values in the end."""

import math
from dataclasses import dataclass, field, replace

import pytest
from support.rollouts import CPU, rollout, terminal
from support.uncertain import UNCERTAIN
from support.walks import (
    CREDIT,
    GRADING,
    SHORT,
    SlottedEngine,
    entropies_of_lines,
    walk_config,
    walked,
)

from vineppo.experience import Experience, sample_varied
from vineppo.metrics import value_quality
from vineppo.tasks.grading import Grader
from vineppo.token_scores import RolloutPass, entropies
from vineppo.types import Problem
from vineppo.values import ValuePredictor
from vineppo.values.group_mean import GroupMean


def drawing(varied):
    """Draws of two rollouts a problem, 3 tokens of values each, and what was drawn."""
    drawn = []

    def draw(problems):
        drawn.append([*problems])
        found = [
            replace(
                rollout(terminal(float(i in varied and index), 1)),
                problem=Problem(f"p{i}", "", ""),
                rollout_index=index,
            )
            for i in problems
            for index in range(2)
        ]
        return Experience(found, found, {"monte_carlo": len(problems)}, 3 * len(problems), 0)

    return draw, drawn


@pytest.mark.parametrize(
    ("varied", "max_redraws", "draws", "kept"),
    [
        ({0, 1, 2, 3}, 9, [[0, 1, 2, 3]], [0, 1, 2, 3]),
        # A half differs, so two are found among four; then all that are missing.
        ({0, 2, 4, 7}, 9, [[0, 1, 2, 3], [4, 5, 6, 7]], [0, 2, 4, 7]),
        # A quarter differs: 12 would be needed, 4 are drawn at once, then the two that are left.
        ({0, 5, 8}, 9, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], [0, 1, 5, 8]),
        ({0, 5, 8}, 1, [[0, 1, 2, 3], [4, 5, 6, 7]], [0, 1, 2, 5]),
        (set(), 1, [[0, 1, 2, 3], [4, 5, 6, 7]], [0, 1, 2, 3]),
        # 3 of 4 differ: two are drawn for the one that is missing, and one is too many.
        ({0, 1, 2, 4, 5}, 9, [[0, 1, 2, 3], [4, 5]], [0, 1, 2, 4]),
        ({5}, 0, [[0, 1, 2, 3]], [0, 1, 2, 3]),
    ],
)
def test_problems_are_drawn_until_enough_of_them_differ(varied, max_redraws, draws, kept):
    draw, drawn = drawing(varied)
    found = sample_varied(draw, range(10), 4, max_redraws)
    assert drawn == draws
    assert [one.key for one in found.rollouts] == [(f"p{i}", j) for i in kept for j in range(2)]
    num_drawn = sum(map(len, draws))
    assert len(found.drawn) == 2 * num_drawn
    assert found.num_continuations == num_drawn
    assert found.value_tokens == 3 * num_drawn


@dataclass
class Verdict:
    """A reward that must not be asked for while the engine has work."""

    of: object
    engine: SlottedEngine

    def done(self):
        assert not self.engine.num_unfinished, "the stream waits for a grader"
        return self.of.done()

    def result(self, timeout=None):
        assert not self.engine.num_unfinished, "the stream waits for a grader"
        return self.of.result(timeout)


@dataclass
class NotingGrader:
    grader: Grader
    engine: SlottedEngine
    steps: list = field(default_factory=list)  # of the engine, before each call
    reads_special_tokens = False

    def reads(self, finish_reason):
        return self.grader.reads(finish_reason)

    def submit(self, *arguments):
        self.steps.append(self.engine.num_steps)
        return Verdict(self.grader.submit(*arguments), self.engine)


def entropy_pass_of(scores, micro_batch_size=2):
    return RolloutPass("entropies", entropies(scores, 1.0), micro_batch_size, CPU)


@dataclass
class NotingReferencePass:
    """Due at every fourth rollout and at the last one."""

    engine: SlottedEngine
    added: dict = field(default_factory=dict)
    num_due: int = 0
    worked: list = field(default_factory=list)  # (rollouts so far, requests left in the engine)

    def add(self, rollout):
        self.added[rollout.key] = rollout
        self.num_due += 1

    def is_due(self, is_last):
        return self.num_due >= (1 if is_last else 4)

    def work(self):
        self.num_due = 0
        self.worked.append((len(self.added), self.engine.num_unfinished))

    def wait(self):
        for one in self.added.values():
            one.tokens_T["ref_logprobs"] = (-1.0,) * len(one.response_ids)


def test_graders_and_the_reference_work_while_the_engine_does():
    engine = SlottedEngine()
    reference_pass = NotingReferencePass(engine)
    with Grader(GRADING) as inner:
        grader = NotingGrader(inner, engine)
        found, _ = walked(
            walk_config(60, seed=5), engine, grader=grader, reference_pass=reference_pass
        )
    assert len(grader.steps) == 18 + found.num_continuations
    # Half of the answers are with the graders at half of the time.
    assert sorted(grader.steps)[len(grader.steps) // 2] < 0.6 * engine.num_steps
    # The reference began before the last rollout was there, and ended before the engine did.
    *worked, (_, at_the_end) = reference_pass.worked
    assert worked[0][0] < 18 == worked[-1][0]
    assert all(left > 0 for _, left in worked)
    assert at_the_end == 0
    for one in found.rollouts:
        assert one.tokens_T["ref_logprobs"] == (-1.0,) * len(one.response_ids)


def test_rollouts_are_cut_once_their_entropies_are_there():
    """The steps and values of lines; a second run makes the same requests before the same steps."""
    plain, _ = walked(walk_config(60, seed=5))
    credit = replace(CREDIT, segmenter=UNCERTAIN)
    config, submitted = walk_config(60, 5, credit), []
    for _ in range(2):
        entropy_pass = entropy_pass_of(entropies_of_lines)
        found, engine = walked(config, SlottedEngine(), entropy_pass=entropy_pass)
        submitted.append(engine.submitted)
        assert [one.spans_S for one in found.rollouts] == [one.spans_S for one in plain.rollouts]
        assert [one.returns_S for one in found.rollouts] == [
            one.returns_S for one in plain.rollouts
        ]
    assert submitted[0] == submitted[1]
    # At most 8, 8 and 2 rollouts a pass, and their states come together: else they come one by one.
    assert len({steps for steps, _ in engine.submitted} - {0}) <= 3
    _, at_once = walked(walk_config(60, seed=5), SlottedEngine())
    assert len({steps for steps, _ in at_once.submitted} - {0}) > 6


class Known(ValuePredictor):
    """Values of tokens that somebody has set."""

    gives = "tokens"


def test_value_quality_is_of_what_each_predictor_values():
    """Against returns of 1 and 0: the tokens' errors vary less; a constant explains nothing."""
    rollouts = [rollout(terminal(1.0, 3), lengths_S=[1, 2]), rollout(terminal(0.0, 1))]
    config = walk_config(SHORT, 0)
    critic, other, mean = Known("critic", config), Known("other", config), GroupMean("mean", config)
    critic.set_values(rollouts, [(0.75, 0.75, 0.75), (0.25,)])
    other.set_values(rollouts, [(0.5, 0.5, 0.5), (0.5,)])
    mean.estimate(rollouts)
    found = value_quality(rollouts, [critic, other, mean], config)
    # Errors halve; none; of three states, 1 − 0 twice and 0 − 1: errors ±1 are twice the returns'.
    names = ["explained_variance", "within_problem_correlation", "calibration_error"]
    names += ["value_std", "return_std"]
    expected = {
        "critic": (0.75, 1.0, 0.25, math.sqrt(3) / 8, math.sqrt(3) / 4),
        "values/other": (0.0, math.nan, abs(0.5 - 0.75), 0.0, math.sqrt(3) / 4),
        "values/mean": (-3.0, -1.0, 1.0, math.sqrt(2) / 3, math.sqrt(2) / 3),
    }
    assert list(found) == [f"{group}/{name}" for group in expected for name in names]
    numbers = [number for row in expected.values() for number in row]
    assert [*found.values()] == pytest.approx(numbers, nan_ok=True)
    rollouts[0].returns_S["other"] = ()
    assert "values/other/explained_variance" not in value_quality(
        rollouts, [critic, other, mean], config
    )
