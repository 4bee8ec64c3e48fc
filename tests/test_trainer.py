"""From experience and scores to training sequences, by hand."""

from dataclasses import replace

import pytest
import torch
from support.experiences import CPU, VINE, changed, experience, scores

from vineppo.config.load import load_config
from vineppo.config.schema import (
    GaeCredit,
    GrpoCredit,
    LinesSegmenter,
    MaskedImportance,
    PositiveExamples,
    TrainConfig,
    TruncatedImportance,
)
from vineppo.credit import token_advantages
from vineppo.sequences import (
    build_sequences,
    is_positive,
    shaped_rewards,
    trained_tokens,
    trajectories,
    whitened,
)
from vineppo.trainer import is_sound, minibatches
from vineppo.types import TrainSequence

GAE = GaeCredit("gae", LinesSegmenter("lines"), 1.0, 1.0, None, 0.5, "token", None)
VALUES = [(0.5, 0.25, 0.75), (0.125, 0.0, 0.5)]


@pytest.fixture(scope="module")
def config(configs):
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    return changed(
        config, credit=VINE, optimization={"whiten_advantages": False, "old_logprobs": "trainer"}
    )


def build(config, found=None, scored=None, kl_coef=0.0):
    found, scored = found or experience(), scored or scores()
    looked_at = trajectories(found, scored, config, kl_coef)
    advantages_T = token_advantages(config.credit, looked_at)
    return build_sequences(found, scored, advantages_T, looked_at, config)


def with_optimization(config, **changes):
    return changed(config, optimization=changes)


def test_advantages_are_broadcast_over_their_step(config):
    # A = (0 − 0.5, 1 − 0) over (2, 1) tokens, and 0 − 0.5 over 3.
    assert [s.advantages_T for s in build(config)] == [(-0.5, -0.5, 1.0), (-0.5, -0.5, -0.5)]


def test_rewards_are_terminal_or_shaped_by_the_clamped_kl(config):
    kl_T = (0.5, -0.25, 12.0)
    assert shaped_rewards(1.0, kl_T, config, 0.1) == (0.0, 0.0, 1.0)
    inside = changed(config, reference={"kl_in": "reward", "kl_clamp": (0.0, 10.0)})
    assert shaped_rewards(1.0, kl_T, inside, 0.1) == pytest.approx((-0.05, 0.0, 1.0 - 1.0))
    free = changed(config, reference={"kl_in": "reward", "kl_clamp": None})
    assert shaped_rewards(1.0, kl_T, free, 0.1) == pytest.approx((-0.05, 0.025, 1.0 - 1.2))


def test_an_estimator_sees_the_rollouts_in_their_order(config):
    first, second = trajectories(
        experience(greedy_rewards={"p": 0.75}), scores(VALUES), config, 0.0
    )
    assert (first.rewards_T, second.rewards_T) == ((0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
    assert (first.logprobs_T, second.critic_values_T) == ((-0.25, -0.5, -1.5), VALUES[1])
    assert (first.state_values_S, second.state_values_S) == ((0.5, 0.0), (0.5,))
    assert [len(t.spans_S) for t in (first, second)] == [2, 1]
    assert first.greedy_reward == second.greedy_reward == 0.75
    (bare, _) = trajectories(experience(values_S=None), scores(), config, 0.0)
    assert bare.state_values_S is bare.critic_values_T is bare.greedy_reward is None


def test_old_logprobs_are_whose_the_config_says(config):
    engine = build(with_optimization(config, old_logprobs="engine"))
    assert [s.old_logprobs_T for s in engine] == [r.logprobs_T for r in experience().rollouts]
    assert [s.old_logprobs_T for s in build(config)] == scores().trainer
    assert [s.ref_logprobs_T for s in build(config)] == scores().reference


def test_a_masked_truncated_rollout_trains_nothing(config):
    masked = build(with_optimization(config, mask_truncated=True))
    assert [s.is_trained_T for s in masked] == [(True,) * 3, (False,) * 3]
    assert [s.is_trained_T for s in build(config)] == [(True,) * 3] * 2


def test_tokens_that_were_near_certain_train_nothing(config):
    """exp(−0.25) = 0.78, exp(−0.125) = 0.88; at exactly the bound a token still trains."""
    engine = with_optimization(config, old_logprobs="engine", max_token_prob=0.7)
    assert [s.is_trained_T for s in build(engine)] == [(False, True, True), (True, True, False)]
    half = with_optimization(config, max_token_prob=0.5)
    rollout = experience().rollouts[0]
    log_half = torch.tensor(0.5, dtype=torch.float64).log().item()
    assert trained_tokens(rollout, (log_half, log_half + 1e-6, -3.0), half) == (True, False, True)
    # Whose probability is that of the ratio's denominator.
    one = with_optimization(config, max_token_prob=1.0)
    assert build(one)[0].is_trained_T == (False, True, True)  # 1.56 by the trainer


def test_whitening_is_over_the_trained_tokens_of_all_rollouts(config):
    raw = torch.tensor([-0.5, -0.5, 1.0, -0.5, -0.5, -0.5], dtype=torch.float64)
    flat = [
        a for s in build(with_optimization(config, whiten_advantages=True)) for a in s.advantages_T
    ]
    expected = (raw - raw.mean()) / raw.std(unbiased=False)
    torch.testing.assert_close(torch.tensor(flat, dtype=torch.float64), expected)


def test_whitening_leaves_out_what_does_not_train():
    """Trained: 1 and 3, mean 2, deviation 1. The 7 is neither counted nor changed."""
    first = replace(
        TrainSequence.blank((1,), (2, 3)), advantages_T=(1.0, 7.0), is_trained_T=(True, False)
    )
    second = replace(TrainSequence.blank((1,), (2,)), advantages_T=(3.0,))
    found = whitened([first, second])
    assert found[0].advantages_T == pytest.approx((-1.0, 7.0))
    assert found[1].advantages_T == pytest.approx((1.0,))
    nothing = replace(first, is_trained_T=(False, False))
    assert whitened([nothing]) == [nothing]


def test_importance_weights_are_of_trainer_over_engine(config):
    """The trainer gives the very first token twice the engine's probability."""
    assert [s.importance_T for s in build(config)] == [(1.0,) * 3] * 2
    truncated = TruncatedImportance("truncated", max_weight=1.5)
    found = build(with_optimization(config, importance_correction=truncated))
    assert [s.importance_T for s in found] == [pytest.approx((1.5, 1.0, 1.0)), (1.0, 1.0, 1.0)]
    masked = MaskedImportance("masked", min_weight=0.5, max_weight=1.5)
    found = build(with_optimization(config, importance_correction=masked))
    assert [s.importance_T for s in found] == [(0.0, 1.0, 1.0), (1.0, 1.0, 1.0)]


def test_positive_examples_are_above_the_least_reward(config):
    def positive(least):
        examples = PositiveExamples(coef=0.1, min_reward=least)
        found = build(with_optimization(config, positive_examples=examples))
        return [s.is_positive for s in found]

    assert positive(0.5) == [True, False]
    assert positive(1.0) == [False, False]
    assert positive(-1.0) == [True, True]
    assert [s.is_positive for s in build(config)] == [False, False]


def test_masked_truncated_responses_are_no_examples(config):
    examples = PositiveExamples(coef=0.1, min_reward=-1.0)
    config = with_optimization(config, positive_examples=examples, mask_truncated=True)
    cut = replace(experience().rollouts[0], finish_reason="length")
    assert not is_positive(cut, config)
    assert is_positive(experience().rollouts[0], config)


def test_the_critics_targets_are_taken_before_whitening(config):
    """λ = 0.5: δ = (−0.25, 0.5, 0.25), A = (0.0625, 0.625, 0.25), targets A + V."""
    for is_whitened in (False, True):
        ppo = with_optimization(changed(config, credit=GAE), whiten_advantages=is_whitened)
        first, second = build(ppo, scored=scores(VALUES))
        assert (first.old_values_T, second.old_values_T) == tuple(VALUES)
        assert first.returns_T == pytest.approx((0.5625, 0.875, 1.0))
        # δ = (−0.125, 0.5, −0.5), A = (0, 0.25, −0.5)
        assert second.returns_T == pytest.approx((0.125, 0.25, 0.0))
        # The policy's λ is 1: its advantages are R − V.
        raw = [1 - v for v in VALUES[0]] + [-v for v in VALUES[1]]
        assert (
            [*first.advantages_T, *second.advantages_T] == pytest.approx(raw)
        ) is not is_whitened
    assert build(config)[0].returns_T == build(config)[0].old_values_T == (0.0, 0.0, 0.0)


def test_a_measured_critic_learns_the_reward_to_go_of_the_shaped_reward(config):
    grpo = changed(
        config,
        credit=GrpoCredit("grpo", LinesSegmenter("lines"), normalize_std=False),
        reference={"kl_in": "reward", "kl_clamp": None},
    )
    first, _ = build(grpo, scored=scores(VALUES), kl_coef=0.1)
    # rewards (−0.05, 0.025, 1 − 1.2), to go (−0.225, −0.175, −0.2)
    assert first.returns_T == pytest.approx((-0.225, -0.175, -0.2))
    # Returns −0.225 and −0.3: the first is 0.0375 above the mean.
    assert first.advantages_T == pytest.approx((0.0375,) * 3)


def test_the_schedule_starts_after_the_warm_up(config):
    """Linear to 0 over 2 of 3 iterations of 2 epochs with 2 updates: 8/8, 7/8, … of the rate."""
    optimization = replace(
        config.optimization, num_epochs=2, batch_size=3, micro_batch_size=2, learning_rate=1.0,
        schedule="linear", warmup_fraction=0.0,
    )  # fmt: skip
    run = replace(config, num_iterations=3, optimization=optimization)
    sequences = [TrainSequence.blank((1,), (2,) * n) for n in (1, 2, 3, 4)]
    parts = [
        part
        for iteration in (2, 3)
        for part in minibatches(sequences, optimization, run, iteration, 2, "minibatches", CPU)
    ]
    assert [part.learning_rate for part in parts] == pytest.approx([(8 - i) / 8 for i in range(8)])
    counts = [[len(batch.token_ids_BT) for batch in part.micro_batches] for part in parts[:2]]
    assert list(map(sum, counts)) == [3, 1]  # nothing is dropped
    for epoch in range(4):
        both = parts[2 * epoch : 2 * epoch + 2]
        assert sum(part.sizes.response_tokens for part in both) == 1 + 2 + 3 + 4


def test_an_update_is_judged_by_all_its_micro_batches():
    def stats(*numbers):
        return [{"loss": loss, "ratio_mean": ratio} for loss, ratio in numbers]

    assert is_sound(2.0, stats((0.5, 1.0), (-3.0, 1.0)))
    assert not is_sound(2.0, stats((0.5, 1.5), (-3.0, 0.6)))
    assert is_sound(None, stats((0.5, 1.5), (-3.0, 600.0)))
    for broken in (float("nan"), float("inf")):
        assert not is_sound(None, stats((0.5, 1.0), (broken, 1.0)))
