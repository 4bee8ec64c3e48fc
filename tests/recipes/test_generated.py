"""Values that the policy writes: how it is asked, what it says, that it feeds credit and learns."""

import json
from dataclasses import asdict, replace

import pytest
from support.critics import build_config, start
from support.random_walk import DIGITS, TOKENIZER, RandomWalkEngine
from support.rollouts import LINES
from support.walks import SHORT, walk_config, walked

from vineppo.config.schema import ValuesConfig
from vineppo.credit.vine import VineCredit as Vine
from vineppo.engine import Completion
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.generated import Answer, Generative, GenerativeTraining, trained_sequences
from vineppo.rollouts import Sampler
from vineppo.types import Problem, Rollout, StepSpan

THINKING = Generative.Config(
    kind="generative", num_samples=2, question="?", think_tokens=3, think_end="=",
    score_prompt="*", score_tokens=2, score_end="\n", score_of=4, unread=0.125, training=None,
)  # fmt: skip
VALUE = {0: 0.0, 1: 0.25, 2: 0.5, 3: 0.125, 4: 1.0}  # of a position, as `Judge` writes it
VINE = Vine("vine", LINES, 0, "share", None, False)


def ids(text, begins=False):
    return tuple(TOKENIZER(text, add_special_tokens=begins)["input_ids"])


class Judge(RandomWalkEngine):
    """Walks, and where it is asked writes the position as a share of 4; of 3 it writes 7.

    At odd positions its reasons end early, with something behind the end; else never.
    """

    def __init__(self):
        super().__init__()
        self.asked = []
        self._answers = []

    @property
    def num_unfinished(self):
        return super().num_unfinished + len(self._answers)

    def submit(self, request, done):
        if ids("?")[0] not in request.prefix_ids:
            super().submit(request, done)
            return
        self.asked.append(request)
        state, _, after = TOKENIZER.decode(request.prefix_ids[1:]).partition("?")
        position = int(state.rstrip("\n")[-1])
        if after:
            text = f"{7 if position == 3 else position}\n"
        else:
            text = "+=9" if position % 2 else "+++"
        assert len(ids(text)) <= request.max_tokens
        self._answers.append((Completion(ids(text), (), "length"), done))

    def step(self):
        super().step()
        answers, self._answers = self._answers, []
        for completion, done in answers:
            done(completion)


def judged(credit=VINE, own=THINKING):
    values = ValuesConfig("judge", {"judge": own})
    return walked(walk_config(SHORT, 1, credit, values=values), engine=Judge())


def positions(rollout):
    """Before each step: the last digit of the state."""
    return [
        DIGITS.index((*rollout.prompt_ids, *rollout.prefix_ids(step))[-2])
        for step in range(len(rollout.spans_S))
    ]


def test_reasons_have_a_budget_and_then_a_score_is_asked_for():
    experience, engine = judged()
    for request in engine.asked:
        text = TOKENIZER.decode(request.prefix_ids[1:])
        state, _, after = text.partition("?")
        assert state.endswith("\n")  # nothing of the step that is valued
        is_odd = int(state[-2]) % 2
        assert (after, request.max_tokens) in [("", 3), ("+=*" if is_odd else "+++=*", 2)]
    assert len({request.seed for request in engine.asked}) == len(engine.asked)
    num_states = len({(*r.prompt_ids, *r.prefix_ids(s)) for r in experience.rollouts
                      for s in range(len(r.spans_S))})  # fmt: skip
    assert len(engine.asked) == num_states * 2 * THINKING.num_samples
    assert experience.value_tokens == num_states * THINKING.num_samples * (3 + 2)


def test_an_answer_without_a_number_from_0_to_1_counts_as_configured():
    experience, _ = judged()
    seen = set()
    for one in experience.rollouts:
        assert list(one.values_S("judge")) == [VALUE[x] for x in positions(one)]
        seen |= set(positions(one))
    assert {1, 2, 3} <= seen


# The policy of the demo, asked for a digit, 9 being certain.
DIGIT = replace(
    THINKING, num_samples=16, think_tokens=0, think_end="", score_prompt="", score_tokens=1,
    score_end="", score_of=9, unread=0.5,
    training=GenerativeTraining(
        learning_rate=1e-4, num_epochs=1, batch_size=96, regression_coef=0.0
    ),
)  # fmt: skip


def attempt(first, reward):
    """Two lines, the first of which decides."""
    response_ids = ids(f"4+6={first}\n1\n")
    return Rollout(
        problem=Problem("p", "4+6?\n", "0"),
        rollout_index=int(reward),
        prompt_ids=ids("4+6?\n", begins=True),
        response_ids=response_ids,
        logprobs_T=(-1.0,) * len(response_ids),
        finish_reason="stop",
        text="",
        reward=reward,
        spans_S=(StepSpan(0, 6), StepSpan(6, len(response_ids))),
    )


def learn(configs, own, num_iterations):
    """Iterations of nothing but asking and learning; the metrics of each, and the rollouts."""
    config = build_config(configs, "separate", critic=None, credit__level="step",
                          values={"credit": "mean", "predictors": {"mean": {"kind": "group_mean"}}},
                          engine={"kind": "transformers", "dtype": "float32", "max_model_len": 128,
                                  "max_num_seqs": 64, "max_num_batched_tokens": 2048})  # fmt: skip
    loaded = load_model(config.model.path, "float32", "sdpa")
    policy, judge = start(config).policy, Generative("judge", config, own)
    judge.start(policy)
    engine = config.engine.build(loaded.engine_model)
    sampler = Sampler(engine, None, TOKENIZER, config.sampling, 1)
    rollouts, metrics = [attempt(0, 1.0), attempt(1, 0.0)], []
    for iteration in range(1, num_iterations + 1):
        stream = judge.open_stream(sampler, iteration)
        for one in rollouts:
            stream.submit(one)
        sampler.finish()
        judge.merge(rollouts, [stream.settle()])
        metrics.append(judge.update(rollouts, iteration))
        engine.load_weights(policy.named_weights())
    return metrics, rollouts, policy


@pytest.mark.parametrize("regression_coef", [0.0, 1.0])
def test_it_learns_what_the_first_line_decides(configs, regression_coef):
    """Scored against the mean reward of the rollouts that pass a state."""
    training = replace(DIGIT.training, regression_coef=regression_coef)
    metrics, (right, wrong), _ = learn(configs, replace(DIGIT, training=training), 30)
    briers = [row["values/judge/brier"] for row in metrics]
    assert briers[0] > 0.1
    assert max(briers[-5:]) < 0.05
    assert metrics[-1]["values/judge/unread_frac"] < 0.05
    assert right.values_S("judge")[1] - wrong.values_S("judge")[1] > 0.5


def test_the_weights_are_the_scores_less_the_others():
    """Sampled tokens alone; behind each answer's reasons stands the number that was right."""
    asked, put_in = ids("4?"), ids("=*")
    is_sampled = (True, False, False, True, True)
    answers = [
        Answer(asked, (*ids("+"), *put_in, *ids(score)), is_sampled, 2, number)
        for score, number in (("1\n", 0.5), ("2\n", 1.0), ("9\n", None))
    ]
    assert [answer.brier(1.0) for answer in answers] == [0.25, 0.0, 1.0]
    found = trained_sequences(answers, 1.0, ids("2\n"), 0.5)
    weights = [one.tokens_T["weight"] for one in found]
    assert weights[::2] == [[w, 0, 0, w, w] for w in (0.25, 0.625, -0.875)]
    assert weights[1::2] == [[0, 0, 0, 0.5, 0.5]] * 3
    assert {one.response_ids for one in found[1::2]} == {(*ids("+"), *put_in, *ids("2\n"))}
    assert [one.response_ids for one in found[::2]] == [answer.response_ids for answer in answers]
    assert len(trained_sequences(answers, 1.0, ids("2\n"), 0.0)) == 3
    nothing = Answer(asked, (), (), 0, None)
    assert len(trained_sequences([*answers, nothing], 1.0, (), 0.0)) == 3


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"num_samples": 1}, "values.predictors.judge.num_samples must be at least 2"),
        ({"think_tokens": 4}, "values.predictors.judge.think_end must not be empty"),
    ],
)
def test_what_cannot_be_is_refused(configs, own, said):
    table = json.loads(json.dumps(asdict(DIGIT))) | own
    with pytest.raises(UserError, match=said):
        build_config(configs, "separate", values__predictors={"judge": table})
