"""Predictors that train no network: the group's mean, a user's own; and who feeds the estimator."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean
from typing import get_args

import pytest
from support.random_walk import TOKENIZER, sample
from support.rollouts import LINES, changed, rollout, terminal
from support.walks import SHORT, demo, walk_config, walked

from vineppo.config.schema import (
    CriticConfig,
    GroupMeanValues,
    MonteCarloValues,
    PooledValues,
    PredictorConfig,
    PythonValues,
    ShrunkValues,
    SmoothedValues,
    ValuesConfig,
)
from vineppo.credit import token_advantages
from vineppo.credit.gae import GaeCredit
from vineppo.credit.groups import GrpoCredit
from vineppo.credit.vine import ContinuationCredit
from vineppo.errors import UserError
from vineppo.experience import add_values
from vineppo.run_dir.tables import value_rows
from vineppo.types import CRITIC, MONTE_CARLO
from vineppo.values import (
    ValuePredictor,
    _implementation,
    build_predictors,
    feeding_predictor,
)
from vineppo.values.group_mean import GroupMean
from vineppo.values.own import OwnPredictor

MEAN = {"mean": GroupMeanValues("group_mean")}
STEP = GaeCredit("gae", LINES, 1.0, 0.0, None, 1.0, "step")


def group(*rewards, problem="p"):
    """Rollouts of a problem with 1, 2, … steps of a token."""
    found = [rollout(terminal(r, n), lengths_S=[1] * n) for n, r in enumerate(rewards, start=1)]
    for one in found:
        one.problem = replace(one.problem, id=problem)
    return found


def test_the_group_mean_is_of_the_problems_other_rollouts():
    rollouts = [*group(1.0, 0.0, 0.5), *group(1.0, 1.0, problem="q")]
    GroupMean("mean", demo()).estimate(rollouts)
    found = [list(one.values_S("mean")) for one in rollouts]
    assert found == [[0.25], [0.75] * 2, [0.5] * 3, [1.0], [1.0] * 2]


@pytest.mark.parametrize("reward", [0.0, 1.0, -7.0])
def test_no_rollouts_own_reward_is_in_its_value(reward):
    found = group(reward, 1.0, 0.0)
    GroupMean("mean", demo()).estimate(found)
    assert found[0].values_S("mean") == [0.5]
    alone = group(reward)
    GroupMean("mean", demo()).estimate(alone)
    assert alone[0].values_S("mean") == [0.0]


LEDGER = """
import json

class Predictor:
    def __init__(self, options):
        self.total = options["start"]

    def values(self, rollouts):
        return [[self.total] * len(rollout.spans_S) for rollout in rollouts]

    def update(self, rollouts):
        self.total += sum(rollout.reward for rollout in rollouts)
        return {"total": self.total}

    def save(self, directory):
        (directory / "total.json").write_text(json.dumps(self.total))

    def load(self, directory):
        self.total = json.loads((directory / "total.json").read_text())
"""


@pytest.fixture
def own(tmp_path):
    """A predictor of the code given."""

    def build(code, options=None):
        file = tmp_path / f"{abs(hash(code))}.py"
        file.write_text(code)
        values = PythonValues("python", str(file), options or {})
        return OwnPredictor("ledger", demo(), values)

    return build


def test_an_own_predictor_values_learns_and_goes_on_where_it_was(own, tmp_path):
    predictor, rollouts = own(LEDGER, {"start": 0.5}), group(1.0, 1.0)
    predictor.estimate(rollouts)
    assert rollouts[1].values_S("ledger") == [0.5, 0.5]
    assert predictor.update(rollouts, 1) == {"values/ledger/total": 2.5}
    predictor.save_state(tmp_path / "trainer" / "ledger")
    resumed = own(LEDGER, {"start": 0.5})
    resumed.load_state(tmp_path / "trainer" / "ledger")
    resumed.estimate(rollouts)
    assert rollouts[0].values_S("ledger") == [2.5]


def test_one_rank_saves_an_own_predictor(own, tmp_path, monkeypatch):
    """Two would write one file at once."""
    monkeypatch.setenv("RANK", "1")
    own(LEDGER, {"start": 0.5}).save_state(tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


def test_an_own_predictor_needs_nothing_but_values(own, tmp_path):
    predictor = own(
        "class Predictor:\n"
        "    def __init__(self, options): pass\n"
        "    def values(self, rollouts): return []\n"
    )
    assert predictor.update(group(1.0), 1) == {}
    predictor.save_state(tmp_path / "ledger")
    predictor.load_state(tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("[[0.5]]", "values must return a list for each of 2 rollouts, got 1"),
        ("[[0.5], [0.5]]", "a number for every step, of rollout 1 2, got 1"),
        ("[[0.5], [0.5, float('nan')]]", "values must be finite, got nan"),
        ("[[float('inf')], [0, 0]]", "values must be finite, got inf"),
    ],
)
def test_values_of_the_wrong_number_or_not_finite_are_refused(own, found, message):
    predictor = own(
        "class Predictor:\n"
        "    def __init__(self, options): pass\n"
        f"    def values(self, rollouts): return {found}\n"
    )
    with pytest.raises(UserError) as refusal:
        predictor.estimate(group(1.0, 0.0))
    assert str(refusal.value).endswith(message)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("Predictor = 3\n", "no class Predictor with a method values"),
        ("class Predictor:\n    pass\n", "no class Predictor with a method values"),
        ("class Predictor:\n    def values(self, rollouts): pass\n", "must take the options: "),
    ],
)
def test_what_is_no_predictor_is_one_line(own, code, message):
    with pytest.raises(UserError, match=message):
        own(code)


# Walks on from the state, and takes where the next line ends for a value.
ASKED = """
class Predictor:
    answer_tokens, num_samples, temperature = {answer_tokens}, 3, 0.5

    def __init__(self, options):
        pass

    def ask(self, state_ids, tokenizer):
        return [*tokenizer.encode("?"), *state_ids]

    def read(self, text):
        return {number}
"""
NUMBER = "int(text[0]) / 4 if text[:1].isdigit() else 0.125"


@pytest.fixture
def asked_values(tmp_path):
    def build(answer_tokens=2, number=NUMBER):
        file = tmp_path / f"asked_{answer_tokens}_{abs(hash(number))}.py"
        file.write_text(ASKED.format(answer_tokens=answer_tokens, number=number))
        return ValuesConfig(None, {"asked": PythonValues("python", str(file), {})})

    return build


def test_the_policy_is_asked_once_for_every_state(asked_values):
    """Its answers come in the stream of the continuations, which do not change."""
    alone, _ = walked(walk_config(SHORT, 1))
    beside, engine = walked(walk_config(SHORT, 1, values=asked_values()))
    answers = defaultdict(list)
    for request in engine.requests:
        if request.temperature == 0.5:
            assert (request.top_p, request.max_tokens) == (1.0, 2)
            text = TOKENIZER.decode(sample(request), skip_special_tokens=True)
            answers[request.prefix_ids].append(int(text[0]) / 4 if text[0].isdigit() else 0.125)
    assert {len(numbers) for numbers in answers.values()} == {3}
    assert len({request.seed for request in engine.requests}) == len(engine.requests)
    num_tokens = 0
    for one, other in zip(beside.rollouts, alone.rollouts, strict=True):
        assert one.returns_S == other.returns_S
        assert one.response_ids == other.response_ids
        for step, found in enumerate(one.values_S("asked")):
            ids = (*TOKENIZER.encode("?"), *one.prompt_ids, *one.prefix_ids(step))
            assert found == pytest.approx(fmean(answers[ids]))
        num_tokens += sum(one.steps_S["tokens/asked"])
    assert num_tokens == 2 * 3 * len(answers)
    assert beside.value_tokens == alone.value_tokens + num_tokens
    (row, *_) = [r for r in value_rows(beside.rollouts, ["asked"]) if r["predictor"] == "asked"]
    assert (row["returns_K"], row["num_tokens"]) == ((), 6)
    assert row["value"] == beside.rollouts[0].values_S("asked")[0]


def test_a_question_without_room_for_its_answer_is_not_asked(asked_values):
    experience, engine = walked(walk_config(SHORT, 1, values=asked_values(answer_tokens=128)))
    assert not any(request.temperature == 0.5 for request in engine.requests)
    for one in experience.rollouts:
        assert set(one.values_S("asked")) == {0.125}


def test_an_answer_must_be_a_finite_number(asked_values):
    with pytest.raises(UserError, match="values of asked must be finite, got nan of '"):
        walked(walk_config(SHORT, 1, values=asked_values(number="float('nan')")))


def test_every_kind_names_its_class():
    kinds = get_args(get_args(PredictorConfig)[0]) + get_args(get_args(CriticConfig)[0])
    assert all(issubclass(_implementation(kind), ValuePredictor) for kind in kinds)


def test_who_feeds_the_estimator():
    vine = demo()
    assert feeding_predictor(vine) == MONTE_CARLO
    assert feeding_predictor(changed(vine, credit=GrpoCredit("grpo", LINES, False))) is None
    assert feeding_predictor(changed(vine, credit=STEP)) == CRITIC
    assert feeding_predictor(changed(vine, credit=STEP, values=ValuesConfig("mean", MEAN))) == (
        "mean"
    )
    assert feeding_predictor(changed(vine, values=ValuesConfig(CRITIC, {}))) == CRITIC


class First(ContinuationCredit):
    def advantages(self, rollouts_G):
        return [[r.state_values_S[0]] * len(r.response_ids) for r in rollouts_G]


def test_an_estimator_gets_its_continuations():
    """`state_values_S` are there without another key of the config."""
    credit = First("first", LINES, 3, "share", None)
    experience, _ = walked(walk_config(SHORT, 1, credit))
    for one in experience.rollouts:
        one.tokens_T["rewards"] = terminal(one.reward, len(one.response_ids))
    (first_T, *_) = token_advantages(credit, experience.rollouts[:6])
    assert set(first_T) == {experience.rollouts[0].returns_S[MONTE_CARLO][0].mean}


def test_ppo_takes_the_values_of_another_predictor():
    """λ = 0 by steps: the mean of the others' rewards in place of the critic's."""
    values = ValuesConfig("mean", MEAN)
    config = walk_config(SHORT, 1, STEP, values=values)
    experience, _ = walked(config)
    add_values(experience.rollouts, build_predictors(config, None))
    rollouts_G = experience.rollouts[:6]
    for one in rollouts_G:
        one.tokens_T["rewards"] = terminal(one.reward, len(one.response_ids))
    others = [sum(other.reward for other in rollouts_G if other is not r) / 5 for r in rollouts_G]
    advantages_GT = token_advantages(STEP, rollouts_G)
    for one, mean, advantages_T in zip(rollouts_G, others, advantages_GT, strict=True):
        last = one.spans_S[-1].start
        assert advantages_T[:last] == pytest.approx([0.0] * last)
        assert advantages_T[last:] == pytest.approx(
            [one.reward - mean] * (len(advantages_T) - last)
        )


@pytest.mark.parametrize(
    "own",
    [
        PooledValues(of="monte_carlo", kind="pooled"),
        ShrunkValues(of="monte_carlo", kind="shrunk", toward="siblings"),
        ShrunkValues(of="monte_carlo", kind="shrunk", toward="previous"),
        SmoothedValues(of="monte_carlo", kind="smoothed", change=0.2, direction="causal"),
    ],
)
def test_vine_takes_values_made_of_its_own_continuations(own):
    """Nothing more is sampled, and their rows repeat no return."""
    config = walk_config(SHORT, 1, values=ValuesConfig("made", {"made": own}))
    experience, engine = walked(config)
    alone, plain_engine = walked(walk_config(SHORT, 1))
    assert len(engine.requests) == len(plain_engine.requests)
    assert experience.value_tokens == alone.value_tokens
    predictors = build_predictors(config, None)
    add_values(experience.rollouts, predictors)
    for one in experience.rollouts:
        one.tokens_T["rewards"] = terminal(one.reward, len(one.response_ids))
        (advantages_T,) = token_advantages(config.credit, [one])
        total = sum(advantages_T[span.start] for span in one.spans_S)
        assert total == pytest.approx(one.reward - one.values_S("made")[0])
    assert any(one.values_S("made") != one.values_S(MONTE_CARLO) for one in experience.rollouts)
    rows = value_rows(experience.rollouts, [predictor.name for predictor in predictors])
    assert {(r["returns_K"], r["num_tokens"]) for r in rows if r["predictor"]} == {((), 0)}


def test_ppo_takes_continuations_as_an_oracle():
    """λ = 0, undiscounted: VinePPO's own advantages."""
    oracle = MonteCarloValues("monte_carlo", 4, "share", None)
    values = ValuesConfig("oracle", {"oracle": oracle})
    experience, _ = walked(walk_config(SHORT, 1, STEP, values=values))
    for one in experience.rollouts:
        one.tokens_T["rewards"] = terminal(one.reward, len(one.response_ids))
        means_S = [value.mean for value in one.returns_S["oracle"]]
        after_S = [*means_S[1:], one.reward]
        (advantages_T,) = token_advantages(STEP, [one])
        for before, after, span in zip(means_S, after_S, one.spans_S, strict=True):
            assert advantages_T[span.start] == pytest.approx(after - before)
