"""Predictors that train no network: the group's mean, a user's own; and who feeds the estimator."""

import json
from dataclasses import replace

import pytest
from support.rollouts import LINES, changed, rollout, terminal
from support.walks import DEMO, SHORT, demo, walk_config, walked

from vineppo.config.checks import check_values
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig, ValuesConfig
from vineppo.credit import token_advantages
from vineppo.credit.gae import GaeCredit
from vineppo.credit.groups import GrpoCredit
from vineppo.errors import UserError
from vineppo.experience import add_values
from vineppo.metrics import value_rows
from vineppo.recipes.martingale import MartingaleCredit
from vineppo.recipes.pooled import Pooled
from vineppo.recipes.shrunk import Shrunk
from vineppo.recipes.smoothed import Smoothed
from vineppo.types import CRITIC, MONTE_CARLO
from vineppo.values import (
    build_predictors,
    feeding_predictor,
    predictors_at,
)
from vineppo.values.group_mean import GroupMean

MEAN = {"mean": GroupMean.Config("group_mean")}
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


LEDGER = """
from dataclasses import dataclass

from vineppo.config.schema import PredictorConfig
from vineppo.values import ValuePredictor


class Ledger(ValuePredictor):
    is_martingale = True
    gives = "tokens"

    @dataclass(frozen=True)
    class Config(PredictorConfig):
        start: float = 0.5

        def check(self, key, config):
            assert key == "values.predictors.ledger" and config.seed == 1

    def __init__(self, *given):
        super().__init__(*given)
        self.total = self.options.start

    def estimate(self, rollouts):
        self.set_values(rollouts, [[self.total] * len(r.response_ids) for r in rollouts])

    def update(self, rollouts, iteration):
        self.total += sum(rollout.reward for rollout in rollouts)
        return {"total": self.total}

    def state(self):
        return {"total": self.total}

    def set_state(self, state):
        self.total = state["total"]
"""


@pytest.fixture
def ledger(tmp_path):
    """The config of a run with a user's own predictor, by the code that loads the core's."""
    file = tmp_path / "ledger.py"
    file.write_text(LEDGER)
    return lambda **keys: load_config(
        TrainConfig,
        str(DEMO),
        [
            "seed=1",
            f"values.predictors={json.dumps({'ledger': {'kind': f'{file}:Ledger', **keys}})}",
        ],
    )


def built(config):
    return {one.name: one for one in build_predictors(config, None)}["ledger"]


def test_an_own_predictor_learns_and_goes_on_where_it_was(ledger, tmp_path, monkeypatch):
    config, rollouts = ledger(start=0.25), group(1.0, 1.0)
    predictor = built(config)
    predictor.estimate(rollouts)
    assert rollouts[1].values_T("ledger") == [0.25, 0.25]
    assert predictor.update(rollouts, 1) == {"total": 2.25}
    monkeypatch.setenv("RANK", "1")
    predictor.save_state(tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists(), "one rank writes"
    monkeypatch.delenv("RANK")
    resumed = built(config)
    with pytest.raises(UserError, match="another version wrote it"):
        resumed.load_state(tmp_path / "ledger")
    predictor.save_state(tmp_path / "ledger")
    resumed.load_state(tmp_path / "ledger")
    assert resumed.total == 2.25
    (found,) = [p for p in predictors_at(config, tmp_path) if p.name == "ledger"]
    assert found.total == 2.25
    assert [p.name for p in predictors_at(config, tmp_path / "empty")] == [MONTE_CARLO]


def test_an_own_predictors_keys_and_capabilities_are_its_class(ledger):
    """Nothing but its file says that it is a martingale; its keys are checked like any other's."""
    config = ledger()
    assert config.values.predictors["ledger"].start == 0.5
    martingale = changed(config, credit=MartingaleCredit("martingale", LINES))
    check_values(changed(martingale, values=replace(config.values, credit="ledger")))
    with pytest.raises(UserError, match=r"values\.predictors\.ledger\.start: Input should be"):
        ledger(start="low")
    with pytest.raises(UserError, match=r"unknown key values\.predictors\.ledger\.end"):
        ledger(end=1)


def test_what_is_no_predictor_is_one_line(tmp_path):
    file = tmp_path / "none.py"
    file.write_text("class Predictor:\n    pass\n")
    for kind, message in (
        (f"{file}:Predictor", "no class Predictor derived from .*ValuePredictor"),
        ("python", "must be one of .* or .FILE.py:Class."),
    ):
        table = json.dumps({"mine": {"kind": kind}})
        with pytest.raises(UserError, match=message):
            load_config(TrainConfig, str(DEMO), [f"values.predictors={table}"])


def test_who_feeds_the_estimator():
    vine = demo()
    assert feeding_predictor(vine) == MONTE_CARLO
    assert feeding_predictor(changed(vine, credit=GrpoCredit("grpo", LINES, False))) is None
    assert feeding_predictor(changed(vine, credit=STEP)) == CRITIC
    assert feeding_predictor(changed(vine, credit=STEP, values=ValuesConfig("mean", MEAN))) == (
        "mean"
    )
    assert feeding_predictor(changed(vine, values=ValuesConfig(CRITIC, {}))) == CRITIC


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
        Pooled.Config(of="monte_carlo", kind="pooled"),
        Shrunk.Config(of="monte_carlo", kind="shrunk", toward="siblings"),
        Shrunk.Config(of="monte_carlo", kind="shrunk", toward="previous"),
        Smoothed.Config(of="monte_carlo", kind="smoothed", change=0.2, direction="causal"),
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
