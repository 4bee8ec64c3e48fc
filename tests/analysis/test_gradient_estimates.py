"""The parts of gradient variance: gradients by hand, sketches, estimators, prices."""

import json
import math
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.rollouts import changed
from support.trained_runs import (
    NUM_CONTINUATIONS,
    NUM_PROMPTS,
    NUM_SAMPLES,
    lasting_process_group,  # noqa: F401
    trained_path,  # noqa: F401
)

from analysis.sampling import prices
from analysis.sampling.advantages import Estimator, advantages_of, choose_estimators
from analysis.sampling.gradients import (
    CountSketch,
    Source,
    chosen_coordinates,
    gradient_rows,
    groups_by_estimator,
    inner_products,
    problem_gradients,
    set_advantages,
)
from analysis.sampling.policies import (
    add_entropies,
    add_values,
    choose_checkpoints,
    open_policies,
)
from analysis.sampling.rollouts import groups_of, read_saved
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig, ValuesConfig
from vineppo.credit import Credit
from vineppo.credit.vine import step_means
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.pooled import Pooled
from vineppo.rollouts import PendingRollouts
from vineppo.run_dir import RunDir
from vineppo.run_dir.tables import rollout_rows, value_rows
from vineppo.token_scores import TokenLogprobs
from vineppo.types import Problem, Rollout, StateValue, StepSpan
from vineppo.values.group_mean import GroupMean

CPU = torch.device("cpu")
EXACT = 0  # size of a sketch


def saved_rollout(problem, index, response_ids, reward, values=None):
    """Steps of 2 tokens and the rest; the sampler's log-probabilities are a constant."""
    return Rollout(
        problem=Problem(problem, "", ""),
        rollout_index=index,
        prompt_ids=(1, 12, 3),
        response_ids=response_ids,
        logprobs_T=(-1.5,) * len(response_ids),
        finish_reason="stop",
        text="",
        reward=reward,
        spans_S=(StepSpan(0, 2), StepSpan(2, len(response_ids))),
        returns_S={} if values is None else {"monte_carlo": values},
    )


GROUPS = [
    [saved_rollout("a", 0, (7, 4, 5), 1.0), saved_rollout("a", 1, (6, 7, 8, 9), 0.0)],
    [saved_rollout("b", 0, (4, 4, 4), 0.0), saved_rollout("b", 1, (5, 2, 5, 7, 8), 1.0)],
]
ADVANTAGES = [
    [[0.5, 0.5, -1.0], [-0.25, -0.25, 0.0, 0.0]],
    [[0.0, 0.0, -0.5], [0.125, 0.125, 1.0, 1.0, 1.0]],
]


def by_hand(model, temperature, weight):
    """N · Σ over a problem's tokens of weight(rollout) · r_t · A_t, differentiated by autograd."""
    rows = []
    for group, advantages_GT in zip(GROUPS, ADVANTAGES, strict=True):
        total = torch.zeros(())
        for one, advantages_T in zip(group, advantages_GT, strict=True):
            ids = torch.tensor([[*one.prompt_ids, *one.response_ids]])
            logits_TV = model(ids).logits[0, 2:-1] / temperature
            logprobs_TV = torch.log_softmax(logits_TV, -1)
            logprobs_T = logprobs_TV.gather(1, ids[0, 3:, None]).squeeze(1)
            gain_T = torch.exp(logprobs_T + 1.5) * torch.tensor(advantages_T)
            total = total + len(GROUPS) * weight(one) * gain_T.sum()
        gradients = torch.autograd.grad(total, list(model.parameters()))
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize(
    ("aggregation", "weight"),
    [
        ("token_mean", lambda _: 1 / 15),
        ("sequence_mean", lambda one: 1 / 4 / len(one.response_ids)),
        ("fixed_length", lambda _: 1 / 4 / 64),
    ],
)
def test_gradients_are_those_of_the_loss_by_hand(config, aggregation, weight):
    config = replace(
        config,
        optimization=replace(config.optimization, loss_aggregation=aggregation, micro_batch_size=1),
        sampling=replace(config.sampling, temperature=0.7),
    )
    loaded = load_model(config.model.path, "float32", "sdpa")
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).eval()
    size = sum(parameter.numel() for parameter in module.parameters())
    set_advantages(GROUPS, ADVANTAGES, config)
    sketch = CountSketch(size, EXACT, 0, CPU)
    chosen_C = chosen_coordinates(size, 1000, seed=0)
    rows_ND, rows_NC = problem_gradients(module, config, GROUPS, sketch, chosen_C, lambda: None)
    expected_ND = by_hand(loaded.model, 0.7, weight)
    np.testing.assert_array_equal(rows_NC, rows_ND[:, chosen_C])
    np.testing.assert_allclose(rows_ND, expected_ND, atol=1e-6, rtol=1e-4)
    gram_NN = inner_products(rows_ND)
    explicit = expected_ND.astype(float)
    np.testing.assert_allclose(gram_NN, explicit @ explicit.T, rtol=1e-4)


def test_an_estimator_that_samples_shared_tokens_is_a_tree_whoever_wrote_it(config):
    """Its rollouts are its own, in order; tokens that it leaves out do not train."""

    @dataclass(frozen=True)
    class Shared(Credit):
        shares_tokens = True

        def submit(self, sampler, prompts_P, stream, done):  # noqa: ARG002
            pending = PendingRollouts()
            for prompt in reversed(prompts_P):
                for index in (1, 0):
                    leaf = saved_rollout(prompt.problem.id, index, (7, 4, 5), 0.0)
                    reward = Future()
                    reward.set_result(float(index))
                    pending.add(leaf, reward)
                    done(leaf)
            return pending

        def trained_tokens(self, rollout):
            return [rollout.rollout_index == 0, *[True] * (len(rollout.response_ids) - 1)]

    credit = Shared("mine/shared.py:Shared", config.credit.segmenter)
    engine = SimpleNamespace(counts=SimpleNamespace(sampled_tokens=0))
    policies = SimpleNamespace(
        sampler=SimpleNamespace(engine=engine, finish=lambda _: None),
        prompt=lambda name: SimpleNamespace(problem=Problem(name, "", "")),
    )
    checkpoint = SimpleNamespace(config=config, title="mine")
    estimators = [Estimator("rloo", config.credit), Estimator("mine", credit)]
    theirs, trees = groups_by_estimator(policies, checkpoint, Source(1, GROUPS), estimators, "")
    assert theirs is GROUPS
    keys = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [(leaf.key, leaf.reward) for group in trees for leaf in group] == [
        (key, float(key[1])) for key in keys
    ]
    set_advantages(trees, [[[0.0] * 3] * 2] * 2, config, credit)
    trained = [leaf.tokens_T["is_trained"] for group in trees for leaf in group]
    assert trained == [(True, True, True), (False, True, True)] * 2
    run = {"config": replace(config, credit=credit), "title": "mine"}
    run = SimpleNamespace(**run, settings={"sample_values": 0})
    with pytest.raises(UserError, match=r"mine: its rollouts share prefixes .*Shared"):
        gradient_rows(policies, run, None)


def test_a_sketch_is_linear_and_its_inner_products_unbiased_with_the_stated_variance():
    generator = np.random.default_rng(0)
    x, y = (torch.from_numpy(generator.normal(size=40)).float() for _ in range(2))
    seeds, size = range(4000), 16
    sketches = [CountSketch(40, size, seed, CPU) for seed in seeds]
    products = np.array([float(one(x) @ one(y)) for one in sketches])
    squares = np.array([float(one(x) @ one(x)) for one in sketches])
    xx, yy, xy = float((x * x).sum()), float((y * y).sum()), float((x * y).sum())
    spread = math.sqrt((xx * yy + xy**2 - 2 * float((x * x * y * y).sum())) / size)
    assert products.mean() == pytest.approx(xy, abs=4 * spread / math.sqrt(len(seeds)))
    assert products.std() == pytest.approx(spread, rel=0.05)
    assert squares.mean() == pytest.approx(xx, rel=0.03)
    assert squares.std() <= 1.05 * xx * math.sqrt(2 / size)
    sketch = sketches[0]
    torch.testing.assert_close(sketch(x + 2 * y), sketch(x) + 2 * sketch(y))
    assert CountSketch(40, EXACT, 0, CPU)(x).tolist() == x.tolist()


def test_what_an_estimator_sees_of_the_returns_and_what_it_pays(config):
    values = (StateValue((1.0, 0.0, 0.0, 1.0), 40), StateValue((1.0, 1.0, 0.0, 0.0), 20))
    group = [
        saved_rollout("a", 0, (7, 4, 5), 1.0, values),
        saved_rollout("a", 1, (4,) * 4, 0.0, values),
    ]
    names = "vine_1,vine_3,rloo,reinforce_plus_plus"
    k1, k3, rloo, plain = choose_estimators(config, group, names)
    assert advantages_of(k1, group) == [[0, 0, 0], [0, 0, -1, -1]]
    thirds = [[1 / 3, 1 / 3, 1 / 3], [1 / 3, 1 / 3, -2 / 3, -2 / 3]]
    for found, expected in zip(advantages_of(k3, group), thirds, strict=True):
        assert found == pytest.approx(expected)
    assert advantages_of(rloo, group) == [[1.0] * 3, [-1.0] * 4]
    assert advantages_of(plain, group) == [[1.0] * 3, [0.0] * 4]
    assert [one.tokens_of(group[0]) for one in (k1, k3, rloo)] == [15, 45, 0]
    tokens_EN = prices.sampled_tokens([[group]] * 3, [k1, k3, rloo], {})
    assert tokens_EN.tolist() == [[7 + 30], [7 + 90], [7]]
    # Values made of another's continuations cost what those do.
    pool = Pooled.Config(of="monte_carlo", kind="pooled")
    pooling = replace(config, values=ValuesConfig("pool", {"pool": pool}))
    for one in group:
        one.steps_S["values/pool"] = (0.5, 0.5)
    (own,) = choose_estimators(pooling, group, "vine_pool")
    assert own.tokens_of(group[0]) == 60


def test_what_is_made_of_the_first_draws(config):
    """Own returns, cuts, coins, the doubly robust and values as a baseline, by their names."""
    values = (StateValue((1.0, 0.0, 0.0, 1.0), 40), StateValue((1.0, 1.0, 0.0, 0.0), 20))
    group = [
        saved_rollout("a", 0, (7, 4, 5), 1.0, values),
        saved_rollout("a", 1, (4,) * 4, 0.0, values),
    ]
    for one in group:
        one.steps_S["values/pool"] = (0.25, 0.75)
    pool = Pooled.Config(of="monte_carlo", kind="pooled")
    config = replace(config, values=ValuesConfig(None, {"pool": pool}))
    names = "vine_2_own,cuts_1_2,cuts_1_2_own,coin_1_2,doubly_robust_pool_1_2,gae_pool,vine_pool"
    chosen = choose_estimators(config, group, names)
    # Values (1/2, 1); of the second rollout's first step the end is (2 · 1 + 0)/3 with its own.
    by_hand = {
        "vine_2_own": ([1 / 2, 0], [2 / 3 - 1 / 2, -1]),
        "cuts_1_2": ([1, 0], [0, -1]),  # the only boundary; the root is the other's reward
        "cuts_1_2_own": ([1, 0], [2 / 3 - 1, -1]),
        "coin_1_2": ([1, 0], [0, -1]),  # a coin of 1
        "doubly_robust_pool_1_2": ([3 / 4, 1 / 4], [3 / 4, -3 / 4]),  # λ = 0: 1 − 1/4, R − 3/4
        "gae_pool": ([3 / 4, 1 / 4], [-1 / 4, -3 / 4]),
        "vine_pool": ([1 / 2, 1 / 4], [1 / 2, -3 / 4]),
    }
    assert [one.name for one in chosen] == list(by_hand)
    for one, expected_GS in zip(chosen, by_hand.values(), strict=True):
        for found_T, rollout, expected_S in zip(
            advantages_of(one, group), group, expected_GS, strict=True
        ):
            assert step_means(found_T, rollout.spans_S) == pytest.approx(expected_S), one.name
    assert [one.tokens_of(group[0]) for one in chosen] == [30, 10, 10, 10, 10, 60, 60]
    assert group[0].returns_S["monte_carlo"] == values  # nothing is left changed
    for wrong in (
        "cuts_0_2",
        "cuts_2",
        "vine_5",
        "doubly_robust_others_3_1",
        "gae_others",
        "own_2",
    ):
        with pytest.raises(UserError, match=f"--estimators: {wrong} is not one of"):
            choose_estimators(config, group, wrong)


def test_which_estimators_there_are(config):
    def names(wanted, num_draws=0, **columns):
        values = tuple(StateValue((1.0,) * num_draws, 5) for _ in range(2))
        group = [saved_rollout("a", i, (7, 4, 5), 1.0, values if num_draws else None)
                 for i in range(2)]  # fmt: skip
        for one in group:
            one.tokens_T |= columns
            one.greedy_reward = 1.0 if columns else None
        return [one.name for one in choose_estimators(config, group, wanted)]

    assert names("all") == ["rloo", "grpo", "reinforce_plus_plus"]
    found = names("all", 5, **{"values/critic": (0.5,) * 3})
    assert found[3:] == ["remax", "gae", "vine_1", "vine_3", "vine_5"]
    assert names("vine_2,rloo", 2) == ["vine_2", "rloo"]
    for wanted in ("gae", "vine_1", "remax", "nonsense", "vine_0", "rloo,"):
        with pytest.raises(UserError, match="--estimators"):
            names(wanted)
    with pytest.raises(UserError, match="vine_1 to vine_2"):
        names("vine_3", 2)


def test_continuations_of_some_states_are_read_back(configs, tmp_path):
    """As the run's own estimator takes them; vine_K and the values of all states are others."""
    path, some = str(configs / "demo_vineppo.jsonnet"), 'credit.states={"kind":"random","cuts":1}'
    config = load_config(TrainConfig, path, [some])
    returns = StateValue((), 0), StateValue((1.0, 0.0), 9)
    group = [saved_rollout("a", i, (7, 4, 5), float(i), returns) for i in range(2)]
    for one in group:
        one.steps_S["advantages"] = (0.0, 0.0)
    saved, rows = RunDir(tmp_path), value_rows(group, ["monte_carlo"])
    saved.write_rollouts(1, rollout_rows(group))
    saved.write_values(1, rows)
    found = read_saved(tmp_path, 1, lambda name: Problem(name, "", ""))
    assert [one.returns_S["monte_carlo"] for one in found] == [returns] * 2
    chosen = choose_estimators(config, found, "all")
    assert [one.name for one in chosen] == ["rloo", "grpo", "reinforce_plus_plus", "vine"]
    # The root is the other's reward: 0.5 − 1 and 0 − 0.5; 0.5 − 0 and 1 − 0.5.
    assert advantages_of(chosen[-1], found) == [[-0.5, -0.5, -0.5], [0.5, 0.5, 0.5]]
    for one in found:
        one.returns_S["monte_carlo"] = (returns[1],) * 2
    names = [one.name for one in choose_estimators(config, found, "all")]
    assert "vine" not in names
    assert "vine_2" in names
    # Of fresh continuations of all states it takes those of the states that it samples.
    fewer = replace(config, credit=replace(config.credit, num_continuations=1))
    (own,) = choose_estimators(fewer, found, "vine")
    gains_GT = zip(found, advantages_of(own, found), strict=True)
    gains = [step_means(gains_T, one.spans_S) for one, gains_T in gains_GT]
    assert gains == [[0, -1], [1, 0]]
    saved.write_values(1, rows[1:])
    with pytest.raises(UserError, match="the values of monte_carlo lack a state of rollout 0"):
        read_saved(tmp_path, 1, lambda name: Problem(name, "", ""))


def test_a_users_own_estimator_is_one_of_them(configs, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from vineppo.credit import Credit\n"
        "@dataclass(frozen=True)\n"
        "class Scaled(Credit):\n"
        "    scale: int\n"
        "    def advantages(self, rollouts_G):\n"
        "        return [[self.scale * r.reward] * len(r.rewards_T) for r in rollouts_G]\n"
    )
    kind = f"{tmp_path / 'mine.py'}:Scaled"
    own = {"kind": kind, "scale": 3, "segmenter": {"kind": "lines"}}
    config = load_config(
        TrainConfig, str(configs / "demo_rloo.jsonnet"), [f"credit={json.dumps(own)}"]
    )
    group = [saved_rollout("a", i, (7, 4), float(i)) for i in range(2)]
    found = choose_estimators(config, group, "all")
    assert [one.name for one in found] == ["rloo", "grpo", "reinforce_plus_plus", "Scaled"]
    assert advantages_of(found[-1], group) == [[0, 0], [3, 3]]


def test_entropies_are_those_of_the_checkpoints_policy(trained_path, tmp_path):  # noqa: F811
    with open_policies([trained_path], 0) as policies:
        (checkpoint,) = choose_checkpoints([trained_path], "1", tmp_path, "none", {})
        rollouts = read_saved(trained_path, 2, policies.problem)[:5]
        add_entropies(policies, checkpoint, rollouts)
        loaded = load_model(checkpoint.policy_path, "float32", None)
    for one in rollouts:
        with torch.no_grad():
            logits_TV = loaded.model(torch.tensor([[*one.prompt_ids, *one.response_ids]])).logits[0]
        logits_TV = logits_TV[len(one.prompt_ids) - 1 : -1, : loaded.engine_model.num_token_ids]
        expected_T = torch.distributions.Categorical(logits=logits_TV).entropy()
        assert one.tokens_T["entropies"] == pytest.approx(expected_T.tolist(), abs=1e-4)


def test_prices_by_hand(configs):
    row = {
        "time/rollout_s": 2.0, "time/values_s": 7.0, "time/grading_s": 1.0,
        "tokens/rollout": 1000, "tokens/values": 4000,
        "time/logprobs_s": 1.0, "time/update_s": 2.5, "time/sync_s": 0.5,
    }  # fmt: skip
    slow = {key: 3 * x if key.startswith("time/") else x for key, x in row.items()}
    assert prices.seconds_per_token([row, row, slow]) == pytest.approx(0.002)
    assert math.isnan(prices.seconds_per_token([row | {"tokens/values": None}]))
    vine, ppo = (
        load_config(TrainConfig, str(configs / f"{name}.jsonnet"), [])
        for name in ("demo_vineppo", "demo_ppo")
    )
    eight = changed(ppo, rollouts={"num_prompts": 8})
    assert prices.learning_seconds([slow, row, row], eight) == 0.5
    assert math.isnan(prices.learning_seconds([], eight))
    both = [SimpleNamespace(values_from=name) for name in ("critic", None)]
    found = prices.seconds(np.array([[100], [100]]), both, [row], eight, 0.25)
    assert found[:, 0] == pytest.approx([0.2 + 0.5, 0.2 + 0.375])  # gae pays for the critic
    for further, is_known in ((ppo.critic, False), (GroupMean.Config("group_mean"), True)):
        beside = replace(eight, values=ValuesConfig(None, {"further": further}))
        assert math.isfinite(prices.learning_seconds([row], beside)) is is_known
    assert prices.critic_share(vine, 100, 100) == 0
    assert prices.critic_share(ppo, 100, 100) == 7 / 15
    assert prices.critic_share(ppo, 100, 50) == 3.5 / 11.5


def test_advantages_and_values_of_a_real_run_are_those_that_it_saved(trained_path, tmp_path):  # noqa: F811
    run, name = RunDir(trained_path), f"vine_{NUM_CONTINUATIONS}"
    with open_policies([trained_path], 0) as policies:
        for checkpoint in choose_checkpoints([trained_path], "0,1", tmp_path, "none", {}):
            iteration = checkpoint.iteration + 1
            rollouts = read_saved(trained_path, iteration, policies.problem)
            groups = groups_of(rollouts)
            assert [len(group) for group in groups] == [NUM_SAMPLES] * NUM_PROMPTS
            (vine,) = choose_estimators(checkpoint.config, rollouts, name)
            found = [
                step_means(advantages_T, one.spans_S)
                for group in groups
                for one, advantages_T in zip(group, advantages_of(vine, group), strict=True)
            ]
            assert any(any(advantages_S) for advantages_S in found)
            for advantages_S, row in zip(found, run.read_rollouts(iteration), strict=True):
                assert advantages_S == pytest.approx(row["advantages_S"], abs=1e-6)
            assert np.std(values_of(rollouts, "critic")) > 0.05  # or another state's would pass
            saved = {name: values_of(rollouts, name) for name in ("critic", "tuned", "probe")}
            assert (np.std(saved["probe"]) > 0.05) == (checkpoint.iteration > 0)
            for one in rollouts:
                for predictor in saved:
                    del one.steps_S[f"values/{predictor}"]
            # The engine has not been started: what the policy answered while training stands.
            answers = values_of(rollouts, "asked")
            assert add_values(policies, checkpoint, rollouts).keys() == {*saved, "asked"}
            assert values_of(rollouts, "asked") == answers
            for predictor, expected in saved.items():
                assert values_of(rollouts, predictor) == pytest.approx(expected, abs=1e-3)
            for feeding in ("asked", "probe"):
                values = replace(checkpoint.config.values, credit=feeding)
                config = replace(checkpoint.config, values=values)
                (own,) = choose_estimators(config, rollouts, f"vine_{feeding}")
                first = groups[0][0]
                expected = first.reward - first.values_S(feeding)[-1]
                assert advantages_of(own, groups[0])[0][-1] == pytest.approx(expected)
                assert (sum(map(own.tokens_of, rollouts)) > 0) == (feeding == "asked")
    metrics = run.read_metrics()[-1]
    assert metrics["values/tuned/loss"] != metrics["critic/loss"]
    assert metrics["values/tuned/explained_variance"] != metrics["critic/explained_variance"]


def values_of(rollouts, name):
    return [value for one in rollouts for value in one.values_S(name)]
