"""What gradient variance is made of: gradients by hand, sketches, estimators, prices."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.trained_runs import (
    NUM_CONTINUATIONS,
    NUM_PROMPTS,
    NUM_SAMPLES,
    lasting_process_group,  # noqa: F401
    trained_path,  # noqa: F401
)

from analysis.gradient_variance import costs
from analysis.sampling.critic_tokens import critic_token_values
from analysis.sampling.estimators import advantages_of, choose_estimators
from analysis.sampling.gradients import Unscored, problem_gradients
from analysis.sampling.policies import policy_paths, shared_config
from analysis.sampling.saved import SavedRollout, groups_of, read_saved
from analysis.sampling.sketch import CountSketch, inner_products
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.credit.steps import step_means
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.run_dir import RunDir
from vineppo.token_scores import TokenLogprobs
from vineppo.types import Problem, Rollout, StateValue, StepSpan

CPU = torch.device("cpu")
EXACT = 0  # --projection


@pytest.fixture(scope="module")
def config(configs):
    return load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])


def saved_rollout(problem, index, response_ids, reward, values=None):
    """Steps of 2 tokens and the rest; the sampler's log-probabilities are a constant."""
    spans_S = (StepSpan(0, 2), StepSpan(2, len(response_ids)))
    rollout = Rollout(
        Problem(problem, "", ""), index, (1, 12, 3), response_ids,
        (-1.5,) * len(response_ids), "stop", "", reward,
    )  # fmt: skip
    return SavedRollout(rollout, spans_S, values)


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
            ids = torch.tensor([[*one.rollout.prompt_ids, *one.rollout.response_ids]])
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
        ("sequence_mean", lambda one: 1 / 4 / len(one.rollout.response_ids)),
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
    unscored = Unscored.of(GROUPS, config)
    rows_ND = problem_gradients(
        module, config, unscored.scored(ADVANTAGES, is_whitened=False), unscored.totals,
        CountSketch(size, EXACT, 0, CPU), lambda: None,
    )  # fmt: skip
    expected_ND = by_hand(loaded.model, 0.7, weight)
    np.testing.assert_allclose(rows_ND, expected_ND, atol=1e-6, rtol=1e-4)
    gram_NN = inner_products(rows_ND, rows_ND)
    explicit = expected_ND.astype(float)
    np.testing.assert_allclose(gram_NN, explicit @ explicit.T, rtol=1e-4)


def test_whitening_is_over_all_trained_tokens_of_all_problems(config):
    unscored = Unscored.of(GROUPS, config)
    flat = [a for scored_G in unscored.scored(ADVANTAGES, True) for s in scored_G
            for a in s.advantages_T]  # fmt: skip
    raw = np.array([a for of in ADVANTAGES for advantages_T in of for a in advantages_T])
    assert flat == pytest.approx((raw - raw.mean()) / raw.std(), abs=1e-6)


def test_a_sketch_is_linear_and_its_inner_products_unbiased_with_the_stated_variance():
    generator = np.random.default_rng(0)
    x, y = (torch.from_numpy(generator.normal(size=(8, 5))).float() for _ in range(2))
    seeds, size = range(4000), 16
    sketches = [CountSketch(40, size, seed, CPU) for seed in seeds]
    products = np.array([float(one([x]) @ one([y])) for one in sketches])
    squares = np.array([float(one([x]) @ one([x])) for one in sketches])
    xx, yy, xy = float((x * x).sum()), float((y * y).sum()), float((x * y).sum())
    spread = math.sqrt((xx * yy + xy**2 - 2 * float((x * x * y * y).sum())) / size)
    assert products.mean() == pytest.approx(xy, abs=4 * spread / math.sqrt(len(seeds)))
    assert products.std() == pytest.approx(spread, rel=0.05)
    assert squares.mean() == pytest.approx(xx, rel=0.03)
    assert squares.std() <= 1.05 * xx * math.sqrt(2 / size)
    sketch = sketches[0]
    torch.testing.assert_close(sketch([x + 2 * y]), sketch([x]) + 2 * sketch([y]))
    assert CountSketch(40, EXACT, 0, CPU)([x[:4], x[4:]]).tolist() == x.flatten().tolist()


def test_inner_products_over_several_chunks(monkeypatch):
    rows = np.array([[1.0, 0.0, 3.0], [1.0, 2.0, -1.0]], np.float32)
    monkeypatch.setattr("analysis.sampling.sketch.CHUNK", 2)
    assert inner_products(rows[:, :2], rows[:, :2]).tolist() == [[1, 1], [1, 5]]
    assert inner_products(rows, rows[:1]).tolist() == [[10], [-2]]


def test_what_an_estimator_sees_of_the_returns_and_what_it_pays(config):
    values = (StateValue((1.0, 0.0, 0.0, 1.0), 40), StateValue((1.0, 1.0, 0.0, 0.0), 20))
    group = [
        saved_rollout("a", 0, (7, 4, 5), 1.0, values),
        saved_rollout("a", 1, (4,) * 4, 0.0, values),
    ]
    names = "vine_k1,vine_k3,rloo,reinforce_plus_plus"
    k1, k3, rloo, plain = choose_estimators(config, names, 4, has_critic=False, has_greedy=False)
    assert advantages_of(k1, group, {}, {}) == [[0, 0, 0], [0, 0, -1, -1]]
    thirds = [[1 / 3, 1 / 3, 1 / 3], [1 / 3, 1 / 3, -2 / 3, -2 / 3]]
    for found, expected in zip(advantages_of(k3, group, {}, {}), thirds, strict=True):
        assert found == pytest.approx(expected)
    assert advantages_of(rloo, group, {}, {}) == [[1.0] * 3, [-1.0] * 4]
    assert advantages_of(plain, group, {}, {}) == [[1.0] * 3, [0.0] * 4]
    assert (k1.tokens_of(values[0]), k3.tokens_of(values[1])) == (10, 15)


def test_which_estimators_there_are(config):
    def names(wanted, **has):
        has = {"max_continuations": 0, "has_critic": False, "has_greedy": False} | has
        return [one.name for one in choose_estimators(config, wanted, **has)]

    assert names("all") == ["rloo", "grpo", "reinforce_plus_plus"]
    found = names("all", max_continuations=5, has_critic=True, has_greedy=True)
    assert found[3:] == ["remax", "gae", "vine_k1", "vine_k3", "vine_k5"]
    assert names("vine_k2,rloo", max_continuations=2) == ["vine_k2", "rloo"]
    for wanted in ("gae", "vine_k1", "remax", "nonsense", "vine_k0", "rloo,"):
        with pytest.raises(UserError, match="--estimators"):
            names(wanted)
    with pytest.raises(UserError, match="vine_k1 to vine_k2"):
        names("vine_k3", max_continuations=2)


def test_prices_by_hand(configs):
    row = {
        "time/rollout_s": 2.0, "time/values_s": 7.0, "time/grading_s": 1.0,
        "tokens/rollout": 1000, "tokens/values": 4000,
        "time/logprobs_s": 1.0, "time/update_s": 2.5, "time/sync_s": 0.5,
    }  # fmt: skip
    slow = {key: 3 * x if key.startswith("time/") else x for key, x in row.items()}
    assert costs.seconds_per_token([row, row, slow]) == pytest.approx(0.002)
    assert costs.learning_seconds([slow, row, row], num_prompts=8) == 0.5
    assert costs.seconds_per_token([row | {"tokens/values": None}]) is None
    assert costs.learning_seconds([], num_prompts=8) is None
    vine, ppo = (
        load_config(TrainConfig, str(configs / f"{name}.jsonnet"), [])
        for name in ("demo_vineppo", "demo_ppo")
    )
    assert costs.critic_share(vine, 100, 100) == 0
    assert costs.critic_share(ppo, 100, 100) == 7 / 15
    assert costs.critic_share(ppo, 100, 50) == 3.5 / 11.5


def test_advantages_and_critic_of_a_real_run_are_those_that_it_saved(trained_path):  # noqa: F811
    config = shared_config([trained_path])
    run = RunDir(trained_path)
    own = f"vine_k{NUM_CONTINUATIONS}"
    (vine,) = choose_estimators(config, own, NUM_CONTINUATIONS, has_critic=False, has_greedy=False)
    policies = policy_paths(trained_path, config.model.path)
    for checkpoint in (0, 1):
        rows = run.read_rollouts(checkpoint + 1)
        groups = groups_of(read_saved(trained_path, checkpoint + 1))
        assert [len(group) for group in groups] == [NUM_SAMPLES] * NUM_PROMPTS
        found = [
            step_means(advantages_T, one.spans_S)
            for group in groups
            for one, advantages_T in zip(group, advantages_of(vine, group, {}, {}), strict=True)
        ]
        assert any(any(advantages_S) for advantages_S in found)
        for advantages_S, row in zip(found, rows, strict=True):
            assert advantages_S == pytest.approx(row["advantages_S"], abs=1e-6)
        rollouts = [one.rollout for group in groups for one in group]
        values = critic_token_values(config, policies[checkpoint], checkpoint, rollouts, CPU).values
        at_steps = [
            values_T[start]
            for values_T, row in zip(values, rows, strict=True)
            for start in row["step_starts"]
        ]
        saved = [row["critic_value"] for row in run.read_values(checkpoint + 1)]
        assert at_steps == pytest.approx(saved, abs=1e-5)
