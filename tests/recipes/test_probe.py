"""The probe: fair by enumeration, what it learns of chains that break, replay, a policy's pass."""

from dataclasses import replace

import numpy as np
import pytest
from support.chains import chains, made, score_covariances, squared_error
from support.grids import grid
from support.rollouts import rollout, terminal
from support.walks import demo

from vineppo.config.schema import ValuesConfig
from vineppo.recipes.probe import Probe, doubts
from vineppo.values import predictors_at

OWN = Probe.Config(
    of="monte_carlo", kind="probe", features="uncertainty", size=32, learning_rate=1e-2,
    weight_decay=0.01, num_steps=150, batch_size=64, replay_iterations=2, num_folds=4,
    crossed=False,
)  # fmt: skip
QUICK = replace(OWN, num_steps=3, num_folds=2, batch_size=8)


def probe(own=OWN):
    return Probe("probe", demo(), own)


def unsure(rollouts):
    """As if the policy had been unsure of what broke the chain: ids of 10 and more."""
    for one in rollouts:
        surprises_T = [float(token >= 10) for token in one.response_ids]
        one.tokens_T["trainer_logprobs"] = [-2 * surprise for surprise in surprises_T]
        one.tokens_T["entropies"] = surprises_T
    return rollouts


def test_the_documented_row():
    one = rollout(terminal(1.0, 3), lengths_S=[2, 1])
    one.tokens_T |= {"trainer_logprobs": (-1.0, -3.0, -2.0), "entropies": (0.5, 2.0, 1.0)}
    assert doubts(one).tolist() == [[0] * 6, [1, 2, -4, -3, 2.5, 2]]


@pytest.mark.parametrize("own", grid(QUICK, slow=[replace(QUICK, of=None, crossed=True)]))
def test_by_enumeration_it_is_a_fair_baseline_and_a_fit_that_saw_the_problem_is_not(own):
    """Whatever was learned before; the action of a step is in the features after it alone."""

    def told(rollouts):
        for one in rollouts:
            one.tokens_T["trainer_logprobs"] = [-1.0 - 2 * a for a in one.response_ids]
            one.tokens_T["entropies"] = [1.0, 0.5]
        return rollouts

    crossed = probe(own)
    earlier = told([made("p", 0, (0, 1), 1, [(1,), (0,)]), made("p", 1, (1, 1), 0, [(1,), (0,)])])
    crossed.estimate(earlier)
    crossed.update(earlier, 1)

    def seeing(rollouts):
        seen = probe(own)
        seen.estimate(told(rollouts))
        seen.update(rollouts, 1)
        seen._num_folds = 1
        seen.estimate(rollouts)

    fair = score_covariances(lambda rollouts: crossed.estimate(told(rollouts)), "probe")
    assert fair == pytest.approx((0, 0), abs=1e-7)  # of float32
    assert np.abs(score_covariances(seeing, "probe")).max() > 1e-3


@pytest.mark.parametrize("is_sampled", [True, False])
def test_it_knows_more_than_a_continuation(is_sampled):
    """Also of states without any, by rewards alone: of V̂_1's error less than a half."""
    learned = probe()
    for seed in range(3):
        rollouts, truth = chains(seed, 1)
        plain = squared_error(rollouts, truth, None)
        if not is_sampled:
            for one in rollouts:
                one.returns_S["monte_carlo"] = [
                    replace(s, returns_K=()) for s in one.returns_S["monte_carlo"]
                ]
        learned.estimate(unsure(rollouts))
        assert squared_error(rollouts, truth, "probe") < 0.5 * plain
        learned.update(rollouts, seed)


def test_it_goes_on_and_values_as_it_was_saved(tmp_path):
    learned, resumed = probe(QUICK), probe(QUICK)
    first, second = (unsure(chains(seed, 1, num_problems=5)[0]) for seed in range(2))
    learned.estimate(first)
    learned.update(first, 1)
    learned.save_state(tmp_path / "state")
    learned.save_hf(tmp_path / "probe")
    resumed.load_state(tmp_path / "state")
    seen = []
    for one in (learned, resumed):
        one.estimate(second)
        values = [rollout.values_S("probe") for rollout in second]
        seen.append((values, one.update(second, 2)))
    assert seen[0] == seen[1]

    config = replace(demo(), values=ValuesConfig(None, {"probe": QUICK}), critic=None)
    at_first = probe(QUICK)
    at_first.estimate(first)
    at_first.update(first, 1)
    _, saved = predictors_at(config, tmp_path)
    branches = [replace(one, reward=float("nan")) for one in second]
    at_first.is_frozen = True
    for there in (at_first, saved):
        there.estimate(second)
        there.estimate_branches(branches, second)
    values = [one.values_S("probe") for one in second]
    assert [one.values_S("probe") for one in branches] == values
    at_first.estimate(second)
    assert [one.values_S("probe") for one in second] == values
    assert [one.name for one in predictors_at(config, tmp_path / "older")] == ["monte_carlo"]


def tossed(draw, number, chance):
    """Two rollouts of a problem, whose policy was sure in the end where the problem is easy."""
    group = []
    for index in range(2):
        reward = float(draw.random() < chance)
        one = rollout(terminal(reward, 3), lengths_S=[1, 2])
        one.problem, one.rollout_index = replace(one.problem, id=f"p{number}"), index
        one.tokens_T |= {"trainer_logprobs": (chance - 1, 0, 0), "entropies": (1 - chance, 0, 0)}
        group.append(one)
    return group


def test_crossed_it_values_a_rollout_by_how_the_others_ended():
    """Its own outcome and tokens are without influence; of hard problems it says less."""
    draw, crossed = np.random.default_rng(0), probe(replace(OWN, of=None, crossed=True))
    for iteration in (1, 2, 3):
        groups = [tossed(draw, number, number % 2 * 0.8 + 0.1) for number in range(64)]
        rollouts = [one for group in groups for one in group]
        crossed.estimate(rollouts)
        metrics = crossed.update(rollouts, iteration)
    hard, easy = (np.mean([g[0].values_S("probe")[0] for g in groups[i::2]]) for i in (0, 1))
    assert (hard, easy) == pytest.approx((0.1, 0.9), abs=0.1)
    assert metrics["values/probe/error"] < 0.15  # 0.09 where the chances are known, else 0.25
    assert all(len(set(one.values_S("probe"))) == 1 for one in rollouts)
    first, second = groups[0]
    crossed.estimate(rollouts)
    before = [one.values_S("probe")[0] for one in (first, second)]
    first.reward, columns = 1 - first.reward, {"trainer_logprobs": (-9, -9, -9)}
    first.tokens_T |= columns
    crossed.estimate(rollouts)
    after = [one.values_S("probe")[0] for one in (first, second)]
    assert after[0] == before[0]
    assert after[1] != before[1]
    branch = replace(first, steps_S={})
    crossed.estimate_branches([branch], rollouts)
    assert branch.values_S("probe") == first.values_S("probe")
