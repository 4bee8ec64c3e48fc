"""Tokens, operations and seconds of an iteration, by hand and by counting every state."""

from dataclasses import replace

import pytest
from support.rollouts import changed
from support.uncertain import UNCERTAIN

from vineppo.config.load import load_config
from vineppo.config.schema import (
    MonteCarloValues,
    SftConfig,
    TrainConfig,
    ValuesConfig,
)
from vineppo.recipes.cuts import CoinCuts, Cuts
from vineppo.tools.estimate.work import (
    Lengths,
    Machine,
    TrainedTokens,
    operations,
    sampled_tokens,
    seconds,
    trained_tokens,
)

LENGTHS = Lengths(prompt=10, response=20, steps=4)


@pytest.fixture
def load(configs):
    """A config of 2 prompts × 3 rollouts with blocks of 8, from a leaf and changes."""

    def loaded(leaf="demo_vineppo", **tables):
        config = load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), [])
        tables = {"engine": {"block_size": 8}, **tables}
        return changed(config, rollouts={"num_prompts": 2, "num_samples": 3}, **tables)

    return loaded


def counted(num_prompts, num_samples, each, is_shared, block, lengths):
    """States, continued and fed tokens, one state at a time, with steps of equal length."""
    num_states = continued = prefixes = 0
    step = lengths.response / lengths.steps
    num_requests = num_prompts * num_samples
    prefixes += num_requests * lengths.prompt
    for _prompt in range(num_prompts):
        for rollout in range(num_samples):
            for i in range(int(lengths.steps)):
                if is_shared and i == 0 and rollout > 0:
                    continue
                num_states += 1
                num_requests += each
                continued += each * (lengths.response - i * step)
                prefixes += each * (lengths.prompt + i * step)
    fed = num_prompts * lengths.prompt + (num_requests - num_prompts) * (block + 1) / 2
    return num_states, continued, prefixes, fed


@pytest.mark.parametrize("mode", ["share", "separate"])
def test_sampling_is_what_counting_every_state_gives(load, mode):
    config = load(
        credit={"num_continuations": 5, "identical_prefixes": mode},
        engine={"block_size": 8},
    )
    sampled = sampled_tokens(config, LENGTHS)
    states, continued, prefixes, fed = counted(2, 3, 5, mode == "share", 8, LENGTHS)
    assert sampled.num_states == states
    assert sampled.num_continuations == 5 * states
    assert sampled.continuations == pytest.approx(continued)
    assert sampled.prefixes == pytest.approx(prefixes)
    assert sampled.fed == pytest.approx(fed)
    assert sampled.rollouts == 2 * 3 * 20


def test_the_transformers_engine_feeds_what_no_slot_holds(load):
    config = load("recipes/transformers_engine", engine={}, credit={"num_continuations": 5})
    sampled = sampled_tokens(config, LENGTHS)
    assert sampled.fed == 2 * 10 + (6 - 2 + 100)  # prompts, then the last token of every prefix


def test_a_further_predictor_samples_its_own(load):
    credit = {"num_continuations": 5, "identical_prefixes": "share"}
    oracle = MonteCarloValues("monte_carlo", 2, "separate", None)
    alone = sampled_tokens(load(credit=credit), LENGTHS)
    both = load(credit=credit, values=ValuesConfig(None, {"oracle": oracle}))
    states, continued, *_ = counted(2, 3, 2, False, 8, LENGTHS)
    sampled = sampled_tokens(both, LENGTHS)
    assert sampled.num_states == alone.num_states + states
    assert sampled.num_continuations == alone.num_continuations + 2 * states
    assert sampled.continuations == pytest.approx(alone.continuations + continued)


@pytest.mark.parametrize(
    ("states", "each"),
    [(Cuts("random", 2), 2), (Cuts("uncertain", 9), 3), (CoinCuts("coin", 0.5), 1.5)],
)
def test_some_states_are_counted_without_the_first(load, states, each):
    """Of 3 later ones a rollout, half the response behind them on average."""
    sampled = sampled_tokens(load(credit={"num_continuations": 5, "states": states}), LENGTHS)
    assert (sampled.num_states, sampled.num_continuations) == (6 * each, 5 * 6 * each)
    assert sampled.continuations == 5 * 6 * each * 10
    assert sampled.prefixes == (6 + 5 * 6 * each) * 10 + 5 * 6 * each * 10


def test_without_continuations_only_rollouts_are_sampled(load):
    sampled = sampled_tokens(load("demo_grpo"), LENGTHS)
    assert (sampled.num_states, sampled.continuations, sampled.rollouts) == (0, 0, 120)
    assert sampled.prefixes == 6 * 10


def test_a_prompt_shorter_than_a_block_is_fed_whole(load):
    config = load("demo_grpo", engine={"block_size": 64})
    sampled = sampled_tokens(config, LENGTHS)
    assert sampled.fed == sampled.prefixes == 60


def test_passes_of_the_trainer(load):
    tokens = 6 * 30
    vine = trained_tokens(load(optimization={"num_epochs": 2}), LENGTHS)
    assert (vine.scored, vine.reference, vine.updated) == (tokens, tokens, 2 * tokens)
    assert vine.critic_scored == vine.critic_updated == 0
    ppo = trained_tokens(load("demo_ppo", critic={"num_epochs": 3}), LENGTHS)
    assert (ppo.critic_scored, ppo.critic_updated) == (tokens, 3 * tokens)


def test_every_critic_passes_the_tokens_in_epochs_of_its_own(load):
    """Critics of 500 and 300 parameters, with 3 epochs and 1."""
    config, tokens = load("demo_ppo", critic={"num_epochs": 3}), 6 * 30
    further = ValuesConfig(None, {"second": replace(config.critic, num_epochs=1)})
    config = replace(config, values=further)
    trained = trained_tokens(config, LENGTHS)
    assert (trained.critic_scored, trained.critic_updated) == (2 * tokens, 4 * tokens)
    sampled = sampled_tokens(config, LENGTHS)
    critics = [(500, tokens, 3 * tokens), (300, tokens, tokens)]
    alone, work = (operations(0, of, sampled, trained, False, False) for of in ([], critics))
    assert work["log-probabilities"] - alone["log-probabilities"] == 2 * 800 * tokens
    assert work["update"] - alone["update"] == 6 * (3 * 500 + 300) * tokens


@pytest.mark.parametrize(
    ("tables", "scored", "reference"),
    [
        ({"credit": {"segmenter": UNCERTAIN}}, 2, 1),  # it needs entropies
        ({"reference": {"kl_estimator": "full"}, "optimization": {"num_epochs": 2}}, 1, 3),
        ({"reference": {"kl_estimator": None, "kl_coef": 0}}, 1, 0),
    ],
)
def test_passes_that_options_add_or_save(load, tables, scored, reference):
    trained = trained_tokens(load(**tables), LENGTHS)
    assert (trained.scored, trained.reference) == (scored * 6 * 30, reference * 6 * 30)


def test_an_iteration_of_fine_tuning_is_an_update(configs):
    config = load_config(SftConfig, str(configs / "sft_arithmetic.jsonnet"), [])
    assert trained_tokens(config, LENGTHS) == TrainedTokens(0, 0, 0, 128 * 30, 0)


def test_operations_by_the_rule_of_two_and_six():
    trained = TrainedTokens(0, 0, 0, updated=30, critic_updated=0)
    for is_checkpointed, is_adapted, total in (
        (False, False, 180_000), (True, False, 240_000), (True, True, 180_000)
    ):  # fmt: skip
        work = operations(1000, [], None, trained, is_checkpointed, is_adapted)
        assert work == {"update": total}


def test_operations_and_seconds_of_every_phase(load):
    config = load("demo_ppo", optimization={"num_epochs": 2}, critic={"num_epochs": 2})
    sampled, trained = sampled_tokens(config, LENGTHS), trained_tokens(config, LENGTHS)
    work = operations(1000, [(500, 180, 360)], sampled, trained, False, False)
    assert work == {
        "rollouts": 2 * 1000 * 120,
        "values": 0,
        "prefixes": 2 * 1000 * sampled.fed,
        "reference": 2 * 1000 * 180,
        "log-probabilities": 2 * 1000 * 180 + 2 * 500 * 180,
        "update": 6 * 1000 * 360 + 6 * 500 * 360,
    }
    machine = Machine(4, 80, tokens_per_s=10, train_tflops=1e-9)
    by_phase = seconds(work, sampled, machine, num_engines=4)
    assert by_phase["rollouts"] == pytest.approx(120 / 40)
    assert by_phase["values"] == 0
    assert by_phase["update"] == pytest.approx(work["update"] / 4000)
    assert set(by_phase) == set(work)


def test_a_rate_that_is_not_given_leaves_its_seconds_out(load):
    config = load()
    sampled = sampled_tokens(config, LENGTHS)
    work = operations(1000, [], sampled, trained_tokens(config, LENGTHS), True, False)

    def phases(tokens_per_s, train_tflops):
        return set(seconds(work, sampled, Machine(1, 80, tokens_per_s, train_tflops), 1))

    assert phases(10, None) == {"rollouts", "values"}
    assert phases(None, 1) == set(work) - {"rollouts", "values"}
    assert phases(None, None) == set()
