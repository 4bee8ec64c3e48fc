"""Posterior values, on choices whose values are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.rollouts import LINES, rollout, terminal
from support.walks import demo

from vineppo.batching import collate
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig, ValuesConfig
from vineppo.models import load_model
from vineppo.recipes.choice_values import SURE, Choices
from vineppo.recipes.martingale import MartingaleCredit
from vineppo.recipes.posterior import Posterior, bounded_differences
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores
from vineppo.types import StateValue
from vineppo.values import build_predictors, predictors_at

OWN = Posterior.Config(
    kind="posterior", num_candidates=3, size=32, learning_rate=1e-2, weight_decay=0.05,
    num_steps=16, batch_size=32, replay_iterations=16,
)  # fmt: skip
TAUGHT = replace(OWN, learns_from="drawn")
NUM_FACTS, NUM_IDS = 6, 9


def test_the_documented_differences():
    ratios = torch.tensor([[[2.0, 0.0]], [[1.5, 0.5]]]).log()
    probs = torch.full((2, 1, 2), 0.5).log()
    for chosen, expected in ((0, [0.5, 0.25]), (1, [-0.5, -0.25])):
        found = bounded_differences(
            torch.tensor([0.5, 0.5]), ratios, probs, torch.full((2, 1), chosen)
        )
        assert found[:, 0].tolist() == pytest.approx(expected)


def test_differences_are_bounded_and_have_no_mean_whatever_the_ratios():
    draw = torch.Generator().manual_seed(0)
    probs = torch.rand(50, 4, 5, generator=draw).softmax(-1)
    ratios = (6 * torch.randn(50, 4, 5, generator=draw)).softmax(-1) / probs  # up to hundreds
    roots = torch.rand(50, generator=draw)
    paths = torch.randint(5, (50, 3), generator=draw)
    last = [
        bounded_differences(
            roots, ratios.log(), probs.log(), torch.cat([paths, torch.full((50, 1), a)], 1)
        )[:, -1]
        for a in range(5)
    ]
    assert ((torch.stack(last, 1) * probs[:, -1]).sum(1)).abs().max() < 1e-6
    assert torch.stack(last).abs().max() <= 1


class World:
    """Rollouts of two choices; of each of its facts one of two tokens is right."""

    def __init__(self, num_facts=NUM_FACTS):
        self.draw = np.random.default_rng(0)
        self.right_F = self.draw.integers(2, size=num_facts)

    def rollouts(self, count):
        return [self.rollout() for _ in range(count)]

    def rollout(self):
        """With the value of the state between its choices as a return of four."""
        num_facts = len(self.right_F)
        facts, chosen = self.draw.integers(num_facts, size=2), self.draw.integers(2, size=2)
        hidden = np.eye(num_facts, dtype=np.float16)[facts]
        is_right = self.right_F[facts] == chosen
        found = rollout(terminal(float(is_right.all()), 4), lengths_S=[2, 2])
        returns_K = self.draw.binomial(1, 0.5, 4) * float(is_right[0])
        found.returns_S["drawn"] = StateValue((), 0), StateValue(tuple(returns_K.tolist()), 9)
        found.choices = Choices(
            positions_U=np.array([1, 2]),
            ids_UK=np.tile(np.array([3, 4, 5], np.int32), (2, 1)),
            logprobs_UK=np.log(np.tile(np.array([0.5, 0.499998, 1e-6], np.float32), (2, 1))),
            chosen_U=chosen,
            steps_U=np.arange(2),
            hidden_UH=hidden,
            root_H=np.zeros(num_facts, np.float16),
        )
        return found

    def is_right(self, one):
        """Whether each choice was."""
        return self.right_F[one.choices.hidden_UH.argmax(1)] == one.choices.chosen_U


def predictor(own=OWN, num_facts=NUM_FACTS):
    made = Posterior("posterior", demo(), own)
    made._build(num_facts, NUM_IDS)
    return made


def trained(world, iterations=40, own=OWN):
    made = predictor(own)
    for iteration in range(iterations):
        rollouts = world.rollouts(16)
        made.estimate(rollouts)
        made.update(rollouts, iteration)
    return made


def test_it_learns_the_values_of_choices_from_rewards_alone():
    world = World()
    made = trained(world)
    tested = world.rollouts(200)
    made.estimate(tested)
    for one in tested:
        before, first, second, last = one.values_T("posterior")
        assert before == first == pytest.approx(0.25, abs=0.08)
        assert last == pytest.approx(one.reward, abs=0.15)
        total = sum(one.tokens_T["differences/posterior"])
        assert before + total == pytest.approx(last)
        assert min(abs(second - value) for value in (0.0, 0.5)) < 0.15
    assert made._coefficient > 0.8


def test_continuations_teach_it_sooner_than_rewards_alone():
    """The squared error of the value between the choices, after 64 rollouts."""

    def error(own):
        world = World()
        made, tested = trained(world, 4, own), world.rollouts(200)
        made.estimate(tested)
        return np.mean([
            (one.values_T("posterior")[2] - 0.5 * world.is_right(one)[0]) ** 2 for one in tested
        ])  # fmt: skip

    assert error(TAUGHT) < 0.5 * error(OWN)


@pytest.mark.parametrize("own", [OWN, TAUGHT])
def test_it_says_nothing_of_an_iterations_returns_until_it_has_learned_them(own):
    """So that its differences stay a control variate; had it learned first, they would be none."""
    world = World()
    made, tested = trained(world, 5, own), world.rollouts(16)

    def differences():
        made.estimate(tested)
        return [one.tokens_T["differences/posterior"] for one in tested]

    before = differences()
    for one in tested:
        one.reward = 1 - one.reward
        one.returns_S["drawn"] = one.returns_S["drawn"][0], StateValue((1 - one.reward,), 9)
    assert differences() == before
    made.update(tested, 5)
    assert differences() != before


@pytest.mark.parametrize("own", [OWN, TAUGHT])
def test_a_resumed_predictor_goes_on_as_the_other(tmp_path, own):
    one, other = trained(World(), 3, own), predictor(own)
    one.save_state(tmp_path)
    other.load_state(tmp_path)
    for made in (one, other):
        tested = World().rollouts(16)
        made.estimate(tested)
        made.metrics = made.update(tested, 3)
        made.estimate(tested)
        made.values_seen = [one.values_T("posterior") for one in tested]
    assert one.values_seen == other.values_seen
    assert one.metrics == other.metrics


def test_at_a_checkpoint_it_values_as_it_was_saved(tmp_path):
    made = trained(World(), 5)
    made.save_hf(tmp_path / "posterior")
    values = ValuesConfig("posterior", {"posterior": OWN})
    config = replace(demo(), values=values, credit=MartingaleCredit("martingale", LINES))
    seen = []
    for there in (made, *predictors_at(config, tmp_path)):
        tested = World().rollouts(4)
        there.estimate(tested)
        seen.append([one.values_T("posterior") for one in tested])
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert predictors_at(config, tmp_path / "older") == []
    (start,) = predictors_at(config, None)
    tested = World().rollouts(4)
    start.estimate(tested)
    assert {value for one in tested for value in one.values_T("posterior")} == {0.5}


def test_choices_are_those_of_the_policys_pass(configs):
    config = load_config(TrainConfig, str(configs / "recipes/martingale.jsonnet"), [])
    loaded = load_model(config.model.path, "float32", "sdpa")
    (made,) = build_predictors(config, loaded)
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids)
    ids = tuple(loaded.tokenizer("so 4+6=0\nwell that\n", add_special_tokens=False)["input_ids"])
    one = rollout(terminal(1.0, len(ids)))
    one.response_ids, one.prompt_ids = ids, (5, 6)
    options = ForwardOptions(0.7, num_candidates=made.num_candidates)
    batch = collate([one, one], torch.device("cpu"))
    with torch.no_grad():
        scores = TokenScores(**module(batch, options))
        logits_TV = loaded.model(torch.tensor([[*one.prompt_ids, *ids]])).logits[0, 1:-1]
    found, _ = made.choices_of(scores, [one, one])
    logprobs_TV = torch.log_softmax(logits_TV[:, : module.num_token_ids] / 0.7, -1)
    expected = [t for t in range(len(ids)) if logprobs_TV[t].max().exp() < SURE]
    assert found.positions_U.tolist() == expected
    assert 0 < len(expected) < len(ids)
    for u, t in enumerate(expected):
        likeliest = logprobs_TV[t, torch.tensor(found.ids_UK[u]).long()]
        assert likeliest.tolist() == pytest.approx(found.logprobs_UK[u].tolist(), abs=1e-4)
        if found.chosen_U[u] >= 0:
            assert found.ids_UK[u, found.chosen_U[u]] == ids[t]
        else:
            assert ids[t] not in found.ids_UK[u]
    one.choices = found
    made.estimate([one])
    assert len(one.values_T("posterior")) == len(ids)
