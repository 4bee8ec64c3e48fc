"""The losses of policy and critic by hand-computed numbers."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from support.rollouts import (
    CPU,
    CRITIC_COLUMNS,
    changed,
    rollout,
    sequence,
    terminal,
    with_column,
    with_columns,
)

from vineppo.batching import UpdateSizes, collate
from vineppo.config.load import load_config
from vineppo.config.schema import (
    CrossEntropy,
    PositiveExamples,
    SquaredError,
    TrainConfig,
)
from vineppo.models import load_model
from vineppo.recipes.policy_losses import resampled
from vineppo.recipes.shared import SharedCritic, SharedValueHead
from vineppo.token_scores import TokenScores
from vineppo.types import Problem
from vineppo.update import POLICY_COLUMNS, policy_objective
from vineppo.values.heads import value_objective

ENTROPY = 0.3
CLIPPED, SQUARED = SquaredError("squared_error", 0.2), SquaredError("squared_error", None)


@pytest.fixture(scope="module")
def config(configs):
    """A plain surrogate: no KL, no bonus."""
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    return changed(config, reference={"kl_clamp": None}, sampling={"max_tokens": 4})


def sequences():
    """Two sequences of 2 and 1 tokens, π = π_old but for the last token, whose ratio is 2."""
    first = sequence(
        (1,),
        (2, 3),
        old_logprobs=(-1.0, -2.0),
        ref_logprobs=(-1.5, -2.0),
        loss_advantages=(3.0, -1.0),
        **{"values/critic": (0.0, 0.0), "targets/critic": (1.0, 0.0)},
    )
    second = sequence(
        (1,),
        (4,),
        old_logprobs=(-1.0 - math.log(2),),
        ref_logprobs=(-2.0,),
        loss_advantages=(2.0,),
        is_positive=(True,),
        **{"values/critic": (1.0,), "targets/critic": (1.0,)},
    )
    return [first, second]


def evaluate(config, found, kl_coef=0.0, heads=()):
    """Terms of the surrogate: −3, 1, −min(2·2, 1.2·2) = −2.4."""
    batch = collate(found, CPU, (*POLICY_COLUMNS, *CRITIC_COLUMNS))
    mask_BT = batch.response_mask_BT
    sampled = TokenScores(
        logprobs_BT=torch.tensor([[0.0, -1.0, -2.0], [0.0, -1.0, 0.0]]),
        entropy_BT=ENTROPY * mask_BT,
        kl_BT=torch.zeros(2, 3).masked_scatter(mask_BT, torch.tensor([0.125, 0.25, 0.75])),
        ref_logprobs_BT=torch.zeros(2, 3),
        value_outputs_BT=torch.zeros(2, 3).masked_scatter(mask_BT, torch.tensor([0.5, 0.5, 1.5])),
    )
    sizes = UpdateSizes.of(found, config.sampling.max_tokens)
    total, numbers = policy_objective(config, kl_coef, heads, sizes, batch, sampled)
    return total.item(), {name: x.item() for name, x in numbers.items()}


def test_numbers_of_an_update(config):
    total, numbers = evaluate(config, sequences())
    assert total == pytest.approx(-(3 - 1 + 2.4) / 3)
    assert numbers["loss"] == total
    assert numbers["clip_frac"] == pytest.approx(1 / 3)
    assert numbers["ratio_mean"] == pytest.approx((1 + 1 + 2) / 3)
    assert numbers["ratio_max"] == pytest.approx(2)
    assert numbers["approx_kl"] == pytest.approx((2 - 1 - math.log(2)) / 3)
    assert numbers["entropy"] == pytest.approx(ENTROPY)


def test_approx_kl_of_a_tiny_step_is_no_rounding(config):
    """π/π_old − 1 − log(π/π_old) ≈ ½ d² ≥ 0; the ratio, near 1, is known to 6e-8 only."""
    gap = 2.0**-12  # exact beside −1 and −2
    first, second = sequences()
    found = [
        with_columns(first, {"old_logprobs": (-1.0 - gap, -2.0 + gap)}),
        with_columns(second, {"old_logprobs": (-1.0,)}),
    ]
    numbers = evaluate(config, found)[1]
    assert numbers["approx_kl"] == pytest.approx(2 * gap**2 / 2 / 3, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("token_mean", -(3 - 1 + 2.4) / 3),
        ("sequence_mean", -((3 - 1) / 2 + 2.4) / 2),
        ("sequence_sum", -((3 - 1) + 2.4) / 2),
        ("fixed_length", -((3 - 1) + 2.4) / (2 * 4)),
    ],
)
def test_aggregation(config, kind, expected):
    config = changed(config, optimization={"loss_aggregation": kind})
    assert evaluate(config, sequences())[0] == pytest.approx(expected)


def moved():
    """`sequences` with ratios 2 and ½ in the first."""
    first, second = sequences()
    old = -1.0 - math.log(2), -2.0 + math.log(2)
    return [with_columns(first, {"old_logprobs": old}), second]


@pytest.mark.parametrize(
    ("kind", "terms", "num_clipped"),
    [
        # −min(2·3, 1.2·3), −min(−½, −0.8) and −min(2·2, 1.2·2).
        ("ppo", [-3.6, 0.8, -2.4], 3),
        # The first response's ratio is 1, the second's 2.
        ("gspo", [-3.0, 1.0, -2.4], 1),
        # Weights 1.2, 0.8, 1.2 of A log π = −3, 2, −2.
        ("cispo", [3.6, -1.6, 2.4], 3),
    ],
)
def test_the_policys_loss_is_the_one_that_is_named(config, kind, terms, num_clipped):
    config = changed(config, optimization={"policy_loss": kind})
    total, numbers = evaluate(config, moved())
    assert total == pytest.approx(sum(terms) / 3)
    assert numbers["clip_frac"] == pytest.approx(num_clipped / 3)
    assert numbers["ratio_mean"] == pytest.approx(4 / 3 if kind == "gspo" else 1.5)
    first, second = moved()
    alone = [with_columns(first, {"is_trained": (True, False)}), second]
    terms[0] = -3.6 if kind == "gspo" else terms[0]  # its ratio is that of the one token: 2
    assert evaluate(config, alone)[0] == pytest.approx((terms[0] + terms[2]) / 2)


def test_importance_weights_enter_the_loss_alone(config):
    first, second = sequences()
    found = [
        with_columns(first, {"importance": (0.5, 2.0)}),
        with_column(second, "importance", 0.0),
    ]
    total, numbers = evaluate(config, found)
    assert total == pytest.approx(-(0.5 * 3 - 2 * 1 + 0 * 2.4) / 3)
    assert numbers["clip_frac"] == pytest.approx(1 / 3)


def test_what_does_not_train_is_in_no_term_and_no_count(config):
    """Only the first token trains: −3, KL ½ 0.5², its entropy; the likelihood takes all tokens."""
    first, second = sequences()
    found = [
        with_columns(first, {"is_trained": (True, False)}),
        with_column(second, "is_trained", False),
    ]
    config = changed(
        config,
        reference={"kl_estimator": "k2", "kl_aggregation": "sequence_sum"},
        optimization={"entropy_coef": 0.5, "positive_examples": PositiveExamples(0.2, 0.5)},
    )
    total, numbers = evaluate(config, found, kl_coef=0.1)
    assert total == pytest.approx(-3 + 0.1 * 0.125 - 0.5 * ENTROPY + 0.2 * 1.0)
    assert numbers["ratio_mean"] == pytest.approx(1)
    assert numbers["ratio_max"] == pytest.approx(1)
    nothing = [with_column(s, "is_trained", False) for s in sequences()]
    total, numbers = evaluate(config, nothing, kl_coef=0.1)
    assert total == pytest.approx(0.2)
    assert numbers["ratio_max"] == numbers["clip_frac"] == 0


def test_entropy_bonus_and_positive_examples(config):
    """+0.5 H for every token; the second sequence is positive, its one token has log π = −1."""
    surrogate = evaluate(config, sequences())[0]
    bonus = changed(config, optimization={"entropy_coef": 0.5})
    assert evaluate(bonus, sequences())[0] == pytest.approx(surrogate - 0.5 * ENTROPY)
    without = [with_column(s, "is_without_bonus", True) for s in sequences()]
    assert evaluate(bonus, without)[0] == pytest.approx(surrogate)
    examples = PositiveExamples(coef=0.2, min_reward=0.5)
    positive = changed(config, optimization={"positive_examples": examples})
    assert evaluate(positive, sequences())[0] == pytest.approx(surrogate + 0.2 * 1.0)
    all_good = [with_column(s, "is_positive", True) for s in sequences()]
    assert evaluate(positive, all_good)[0] == pytest.approx(surrogate + 0.2 * (1 + 2 + 1) / 3)
    none_good = [with_column(s, "is_positive", False) for s in sequences()]
    assert evaluate(positive, none_good)[0] == pytest.approx(surrogate)


@pytest.mark.parametrize(
    ("estimator", "kl_N"),
    [
        ("k1", [0.5, 0.0, 1.0]),
        ("abs", [0.5, 0.0, 1.0]),
        ("k2", [0.125, 0.0, 0.5]),
        ("k3", [math.exp(-0.5) - 0.5, 0.0, math.exp(-1.0)]),  # r − 1 − log r
        ("full", [0.125, 0.25, 0.75]),
    ],
)
def test_kl_in_the_loss(config, estimator, kl_N):
    surrogate = evaluate(config, sequences())[0]

    def kl(coef, **changes):
        of_estimator = changed(config, reference={"kl_estimator": estimator, **changes})
        return evaluate(of_estimator, sequences(), coef)[0] - surrogate

    for gradient in ("own", "k2"):
        by_sum = kl(0.1, kl_aggregation="sequence_sum", kl_gradient=gradient)
        assert by_sum == pytest.approx(0.1 * sum(kl_N) / 2, abs=1e-6)
    by_token = kl(0.1, kl_aggregation="token_mean")
    assert by_token == pytest.approx(0.1 * sum(kl_N) / 3, abs=1e-6)
    clamped = kl(0.1, kl_aggregation="token_mean", kl_clamp=(0.2, 0.6))
    expected = [min(max(x, 0.2), 0.6) for x in kl_N]
    assert clamped == pytest.approx(0.1 * sum(expected) / 3, abs=1e-6)
    ratios_N = [1.0, 1.0, 2.0]
    weighted = kl(0.1, kl_aggregation="token_mean", kl_importance=True)
    expected = sum(r * x for r, x in zip(ratios_N, kl_N, strict=True))
    assert weighted == pytest.approx(0.1 * expected / 3, abs=1e-6)
    assert kl(0.0) == 0
    assert kl(0.1, kl_in="reward") == 0


def test_value_loss_is_over_all_response_tokens():
    """Clip 0.2: ½ 0.8² (clipped), ½ 0.5², ½ 0.5² (to 1.5 from 1, away from it) over 3 tokens."""
    first, second = sequences()
    found = [with_column(first, "is_trained", False), second]
    batch = collate(found, CPU, CRITIC_COLUMNS)
    outputs_BT = torch.zeros(2, 3).masked_scatter(
        batch.response_mask_BT, torch.tensor([0.5, 0.5, 1.5])
    )
    sizes = UpdateSizes.of(found, 4)
    total, numbers = value_objective(CLIPPED, "critic", sizes, batch, outputs_BT)
    assert total.item() == pytest.approx((0.32 + 0.125 + 0.125) / 3)
    assert numbers["loss"].item() == total.item()
    assert numbers["clip_frac"].item() == pytest.approx(1 / 3)
    assert numbers["value_mean"].item() == pytest.approx(2.5 / 3)
    unclipped = value_objective(SQUARED, "critic", sizes, batch, outputs_BT)[0]
    assert unclipped.item() == pytest.approx(3 * 0.125 / 3)
    # A micro-batch of the second alone is its summand of the same update.
    part = value_objective(
        CLIPPED, "critic", sizes, collate([second], CPU, CRITIC_COLUMNS), torch.full((1, 2), 1.5)
    )[0]
    assert part.item() == pytest.approx(0.125 / 3)


def test_bounded_values_by_cross_entropy():
    """Outputs 0 are V = 0 in the middle of [−1, 1], and log 2 whatever the return."""
    batch = collate(sequences(), CPU, CRITIC_COLUMNS)
    sizes = UpdateSizes.of(sequences(), 4)
    loss = CrossEntropy("cross_entropy", -1.0, 1.0)
    total, numbers = value_objective(loss, "critic", sizes, batch, torch.zeros(2, 3))
    assert total.item() == pytest.approx(math.log(2))
    assert numbers["value_mean"].item() == pytest.approx(0.0)
    assert numbers["clip_frac"].item() == 0


def test_a_shared_critics_loss_joins_the_policys(config):
    """The numbers keep them apart: `loss` is the whole, `critic/loss` the value loss alone."""
    critic = SharedCritic(kind="shared", coef=0.5, head_learning_rate=1.0, warmup_iterations=0,
                          head_init="normal", loss=CLIPPED)  # fmt: skip
    loaded = load_model(config.model.path, "float32", "sdpa")
    head = SharedValueHead("critic", config, critic, loaded)
    surrogate = evaluate(config, sequences())[0]
    total, numbers = evaluate(config, sequences(), heads=[head])
    value = (0.32 + 0.125 + 0.125) / 3
    assert total == pytest.approx(surrogate + 0.5 * value)
    assert numbers["loss"] == pytest.approx(total)
    assert numbers["critic/loss"] == pytest.approx(value)
    assert numbers["critic/value_mean"] == pytest.approx(2.5 / 3)
    assert numbers["critic/clip_frac"] == pytest.approx(1 / 3)
    assert numbers["clip_frac"] == pytest.approx(1 / 3)


def pool():
    """Two problems of four rollouts, with rewards 9, 5, 5, 1 and 0 throughout."""
    return [
        replace(rollout(terminal(reward, 2)), problem=Problem(name, "", ""), rollout_index=index)
        for name, rewards in (("a", (9, 5, 5, 1)), ("b", (0, 0, 0, 0)))
        for index, reward in enumerate(rewards)
    ]


def test_draws_follow_from_seed_and_iteration_with_the_papers_frequencies(config):
    """Best-worst of 9, 5, 5, 1: the first and the last half the time; of equals each a quarter."""
    config = changed(config, optimization={"resampling": "best_worst"})

    def draw(iteration):
        return [one.key for one in resampled(pool(), config, iteration)]

    assert draw(1) == draw(1)
    assert [name for name, _ in draw(1)] == ["a"] * 4 + ["b"] * 4
    assert len({tuple(draw(i)) for i in range(20)}) > 10
    counts = Counter(key for i in range(1000) for key in draw(i))
    assert counts["a", 1] == counts["a", 2] == 0
    # 4,000 draws: the deviations are √(4000/4) = 32 and √(4000 · 3/16) = 27.
    assert abs(counts["a", 0] - 2000) < 4 * 32
    assert all(abs(counts["b", index] - 1000) < 4 * 28 for index in range(4))
