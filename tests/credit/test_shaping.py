"""From rewards and values to what an update reads, by hand."""

from dataclasses import replace

import pytest
import torch
from support.rollouts import LINES, VINE, changed, rollout, two_rollouts, with_logprobs

from vineppo.config.schema import MaskedImportance, PositiveExamples, TruncatedImportance
from vineppo.credit.gae import GaeCredit
from vineppo.credit.groups import GrpoCredit
from vineppo.errors import UserError
from vineppo.experience import add_advantages, shaped_rewards
from vineppo.update import POLICY_COLUMNS, trained_tokens, whiten_advantages
from vineppo.values import ValuePredictor
from vineppo.values.heads import set_targets

GAE = GaeCredit("gae", LINES, 1.0, 1.0, None, 0.5, "token")
VALUES = [(0.5, 0.25, 0.75), (0.125, 0.0, 0.5)]


class Critic(ValuePredictor):
    """Known values of tokens, trained as a critic's are."""

    gives = "tokens"

    def estimate(self, rollouts):
        self.set_values(rollouts, VALUES)

    def prepare_update(self, rollouts):
        set_targets(rollouts, self.name, self.config)


@pytest.fixture(scope="module")
def config(config):
    return changed(
        config, credit=VINE, optimization={"whiten_advantages": False, "old_logprobs": "trainer"}
    )


def build(config, kl_coef=0.0):
    """The rollouts when all is known that an update reads."""
    found = with_logprobs(two_rollouts())
    add_advantages(found, [], config, kl_coef)
    return found


def build_with_critic(config, kl_coef=0.0):
    found, critic = with_logprobs(two_rollouts()), Critic("critic", config)
    critic.estimate(found)
    for one in found:
        one.values_from = "critic"
    add_advantages(found, [critic], config, kl_coef)
    return found


def column(name, found):
    return [one.tokens_T[name] for one in found]


def with_optimization(config, **changes):
    return changed(config, optimization=changes)


def test_advantages_are_broadcast_over_their_step(config):
    # A = (0 − 0.5, 1 − 0) over (2, 1) tokens, and 0 − 0.5 over 3.
    found = build(config)
    for name in ("advantages", "loss_advantages"):
        assert column(name, found) == [[-0.5, -0.5, 1.0], [-0.5, -0.5, -0.5]]
    assert [one.steps_S["advantages"] for one in found] == [[-0.5, 1.0], [-0.5]]
    assert all(name in found[0].tokens_T for name in POLICY_COLUMNS)


def test_rewards_are_terminal_or_shaped_by_the_clamped_kl(config):
    kl_T = (0.5, -0.25, 12.0)
    assert shaped_rewards(1.0, kl_T, config, 0.1) == (0.0, 0.0, 1.0)
    inside = changed(config, reference={"kl_in": "reward", "kl_clamp": (0.0, 10.0)})
    assert shaped_rewards(1.0, kl_T, inside, 0.1) == pytest.approx((-0.05, 0.0, 1.0 - 1.0))
    free = changed(config, reference={"kl_in": "reward", "kl_clamp": None})
    assert shaped_rewards(1.0, kl_T, free, 0.1) == pytest.approx((-0.05, 0.025, 1.0 - 1.2))
    assert column("rewards", build(config)) == [(0.0, 0.0, 1.0), (0.0, 0.0, 0.0)]


def test_old_logprobs_are_whose_the_config_says(config):
    found = build(with_optimization(config, old_logprobs="engine"))
    assert column("old_logprobs", found) == [one.logprobs_T for one in found]
    found = build(config)
    assert column("old_logprobs", found) == column("trainer_logprobs", found)
    assert found[0].tokens_T["old_logprobs"] != found[0].logprobs_T


def test_a_masked_truncated_rollout_trains_nothing(config):
    masked = build(with_optimization(config, mask_truncated=True))
    assert column("is_trained", masked) == [(True,) * 3, (False,) * 3]
    assert column("is_trained", build(config)) == [(True,) * 3] * 2


def test_tokens_that_were_near_certain_train_nothing(config):
    """exp(−0.25) = 0.78, exp(−0.125) = 0.88; at exactly the bound a token still trains."""
    engine = with_optimization(config, old_logprobs="engine", max_token_prob=0.7)
    assert column("is_trained", build(engine)) == [(False, True, True), (True, True, False)]
    half = with_optimization(config, max_token_prob=0.5)
    log_half = torch.tensor(0.5, dtype=torch.float64).log().item()
    found = trained_tokens(two_rollouts()[0], (log_half, log_half + 1e-6, -3.0), half)
    assert found == (True, False, True)
    # Whose probability is that of the ratio's denominator.
    one = with_optimization(config, max_token_prob=1.0)
    assert column("is_trained", build(one))[0] == (False, True, True)  # 1.56 by the trainer


def test_a_mask_of_ones_own_joins_the_others(config, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def trains(rollout): return [i != 7 for i in rollout.response_ids]")
    mine = with_optimization(config, token_mask_path=str(file))
    assert column("is_trained", build(mine)) == [(False, True, True), (True, False, True)]
    both = with_optimization(mine, mask_truncated=True, max_token_prob=0.5)
    assert column("is_trained", build(both)) == [(False, False, True), (False,) * 3]
    other = tmp_path / "other.py"
    other.write_text("def trains(rollout): return [True]")
    with pytest.raises(UserError) as refusal:
        build(with_optimization(config, token_mask_path=str(other)))
    assert str(refusal.value) == f"{other}: trains must return one truth a token, 3, got 1"


def test_whitening_leaves_out_what_does_not_train():
    """Trained: 1 and 3, mean 2, deviation 1. The 7 is neither counted nor changed."""
    first, second = rollout([0.0, 0.0]), rollout([0.0])
    first.tokens_T |= {"loss_advantages": (1.0, 7.0), "is_trained": (True, False)}
    second.tokens_T |= {"loss_advantages": (3.0,), "is_trained": (True,)}
    whiten_advantages([first, second])
    assert first.tokens_T["loss_advantages"] == pytest.approx((-1.0, 7.0))
    assert second.tokens_T["loss_advantages"] == pytest.approx((1.0,))
    first.tokens_T |= {"loss_advantages": (1.0, 7.0), "is_trained": (False, False)}
    whiten_advantages([first])
    assert first.tokens_T["loss_advantages"] == (1.0, 7.0)


def test_importance_weights_are_of_trainer_over_engine(config):
    """The trainer gives the very first token twice the engine's probability."""
    assert column("importance", build(config)) == [[1.0] * 3] * 2
    truncated = TruncatedImportance("truncated", level="token", max_weight=1.5)
    found = column("importance", build(with_optimization(config, importance_correction=truncated)))
    assert found == [pytest.approx([1.5, 1.0, 1.0]), [1.0] * 3]
    masked = MaskedImportance("masked", level="token", min_weight=0.5, max_weight=1.5)
    found = column("importance", build(with_optimization(config, importance_correction=masked)))
    assert found == [[0.0, 1.0, 1.0], [1.0] * 3]
    whole = TruncatedImportance("truncated", level="sequence", max_weight=9.0)
    found = column("importance", build(with_optimization(config, importance_correction=whole)))
    assert found == [pytest.approx([2.0] * 3), [1.0] * 3]


def groups(config, rewards):
    """A problem of two rollouts for each pair of rewards, as the update gets them."""
    found = []
    for number, pair in enumerate(rewards):
        for one, reward in zip(with_logprobs(two_rollouts()), pair, strict=True):
            found.append(replace(one, problem=replace(one.problem, id=f"{number}"), reward=reward))
    add_advantages(found, [], config, 0.0)
    return found


def test_problems_whose_rollouts_got_one_reward_train_nothing(config):
    examples = PositiveExamples(coef=0.1, min_reward=0.5)
    config = with_optimization(config, mask_equal_rewards=True, positive_examples=examples)
    found = groups(config, [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
    nothing, everything = (False,) * 3, (True,) * 3
    assert column("is_trained", found) == [nothing] * 2 + [everything] * 2 + [nothing] * 2
    assert column("is_positive", found) == [nothing] * 2 + [everything] + [nothing] * 3
    kept = with_optimization(config, mask_equal_rewards=False)
    assert column("is_trained", groups(kept, [(1.0, 1.0)])) == [everything] * 2


def test_positive_examples_are_above_the_least_reward(config):
    def positive(least):
        examples = PositiveExamples(coef=0.1, min_reward=least)
        return column("is_positive", build(with_optimization(config, positive_examples=examples)))

    assert positive(0.5) == [(True,) * 3, (False,) * 3]
    assert positive(1.0) == [(False,) * 3] * 2
    assert positive(-1.0) == [(True,) * 3] * 2
    assert column("is_positive", build(config)) == [(False,) * 3] * 2


def test_the_critics_targets_are_taken_before_whitening(config):
    """λ = 0.5: δ = (−0.25, 0.5, 0.25), A = (0.0625, 0.625, 0.25), targets A + V."""
    for is_whitened in (False, True):
        ppo = with_optimization(changed(config, credit=GAE), whiten_advantages=is_whitened)
        found = build_with_critic(ppo)
        assert column("values/critic", found) == VALUES
        first, second = column("targets/critic", found)
        assert first == pytest.approx((0.5625, 0.875, 1.0))
        # δ = (−0.125, 0.5, −0.5), A = (0, 0.25, −0.5)
        assert second == pytest.approx((0.125, 0.25, 0.0))
        # The policy's λ is 1: its advantages are R − V.
        raw = [1 - v for v in VALUES[0]] + [-v for v in VALUES[1]]
        advantages = [a for row in column("loss_advantages", found) for a in row]
        assert (advantages == pytest.approx(raw)) is not is_whitened


def test_a_measured_critic_learns_the_reward_to_go_of_the_shaped_reward(config):
    grpo = changed(
        config,
        credit=GrpoCredit("grpo", LINES, normalize_std=False),
        reference={"kl_in": "reward", "kl_clamp": None},
    )
    first, _ = build_with_critic(grpo, kl_coef=0.1)
    # rewards (−0.05, 0.025, 1 − 1.2), to go (−0.225, −0.175, −0.2)
    assert first.tokens_T["targets/critic"] == pytest.approx((-0.225, -0.175, -0.2))
    # Returns −0.225 and −0.3: the first is 0.0375 above the mean.
    assert first.tokens_T["advantages"] == pytest.approx((0.0375,) * 3)


def test_an_estimator_sees_one_problems_rollouts_at_a_time(config):
    """Two problems of two rollouts: the second one's mean is its own."""
    rollouts = [*with_logprobs(two_rollouts()), *with_logprobs(two_rollouts())]
    for one in rollouts[2:]:
        one.problem, one.reward = replace(one.problem, id="other"), one.reward + 1.0
    grpo = changed(config, credit=GrpoCredit("grpo", LINES, normalize_std=False))
    add_advantages(rollouts, [], grpo, 0.0)
    assert [advantages_T[0] for advantages_T in column("advantages", rollouts)] == [0.5, -0.5] * 2
