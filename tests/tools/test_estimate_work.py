"""Tokens, operations and seconds of an iteration, by hand and by counting every state."""

from dataclasses import replace

import pytest
from support.rollouts import changed
from support.uncertain import UNCERTAIN

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.recipes.cuts import CoinCuts, Cuts
from vineppo.tools.estimate.work import (
    Assumptions,
    operations,
    sampled_tokens,
    seconds,
    trained_tokens,
)

GIVEN = Assumptions(1, 80, None, None, prompt_tokens=10, response_tokens=20, steps=4)
TOKENS = 6 * 30


@pytest.fixture
def load(configs):
    """A config of 2 prompts × 3 rollouts with blocks of 8, from a leaf and changes."""

    def loaded(leaf="demo_vineppo", **tables):
        config = load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), [])
        tables = {"engine": {"block_size": 8}, **tables}
        return changed(config, rollouts={"num_prompts": 2, "num_samples": 3}, **tables)

    return loaded


def counted(each, is_shared):
    """One state at a time, with steps of equal length."""
    num_states = continued = prefixes = 0
    num_requests = 6
    prefixes += num_requests * 10
    for _prompt in range(2):
        for rollout in range(3):
            for i in range(4):
                if is_shared and i == 0 and rollout > 0:
                    continue
                num_states += 1
                num_requests += each
                continued += each * (20 - i * 5)
                prefixes += each * (10 + i * 5)
    return {
        "rollouts": 120,
        "continuations": continued,
        "prefixes": prefixes,
        "fed": 2 * 10 + (num_requests - 2) * 9 / 2,
        "num_requests": num_requests,
        "num_states": num_states,
        "num_continuations": num_requests - 6,
    }


@pytest.mark.parametrize("mode", ["share", "separate"])
def test_sampling_is_what_counting_every_state_gives(load, mode):
    config = load(credit={"num_continuations": 5, "identical_prefixes": mode})
    assert sampled_tokens(config, GIVEN) == pytest.approx(counted(5, mode == "share"))


@pytest.mark.parametrize(
    ("states", "each"),
    [(Cuts("random", 2), 2), (Cuts("uncertain", 9), 3), (CoinCuts("coin", 0.5), 1.5)],
)
def test_some_states_are_counted_without_the_first(load, states, each):
    """3 later states a rollout, half the response behind them on average."""
    sampled = sampled_tokens(load(credit={"num_continuations": 5, "states": states}), GIVEN)
    assert sampled["num_states"] == 6 * each
    assert sampled["continuations"] == 5 * 6 * each * 10
    assert sampled["prefixes"] == (6 + 5 * 6 * each) * 10 + 5 * 6 * each * 10


@pytest.mark.parametrize(("block_size", "fed"), [(8, 2 * 10 + 4 * 4.5), (64, 60)])
def test_without_continuations_only_rollouts_are_sampled(load, block_size, fed):
    """A prompt shorter than a block is fed whole."""
    sampled = sampled_tokens(load("demo_grpo", engine={"block_size": block_size}), GIVEN)
    assert (sampled["num_states"], sampled["continuations"]) == (0, 0)
    assert (sampled["prefixes"], sampled["fed"]) == (60, fed)


@pytest.mark.parametrize(
    ("leaf", "tables", "expected"),
    [
        ("demo_vineppo", {"optimization": {"num_epochs": 2}}, (1, 1, 2, 0, 0)),
        ("demo_ppo", {"critic": {"num_epochs": 3}}, (1, 1, 1, 1, 3)),
        # The segmenter needs entropies.
        ("demo_vineppo", {"credit": {"segmenter": UNCERTAIN}}, (2, 1, 1, 0, 0)),
        ("demo_vineppo", {"reference": {"kl_estimator": "full"}}, (1, 2, 1, 0, 0)),
        ("demo_vineppo", {"reference": {"kl_estimator": None, "kl_coef": 0}}, (1, 0, 1, 0, 0)),
    ],
)
def test_passes_of_the_trainer(load, leaf, tables, expected):
    """Counts passes of the policy, the reference, the update, the critics and their updates."""
    found = trained_tokens(load(leaf, **{"optimization": {"num_epochs": 1}, **tables}), GIVEN)
    assert tuple(number / TOKENS for number in found.values()) == expected


@pytest.mark.parametrize(
    ("is_checkpointed", "is_adapted", "each"), [(0, 0, 6), (1, 0, 8), (1, 1, 6)]
)
def test_operations_and_seconds_of_every_phase(load, is_checkpointed, is_adapted, each):
    config = load("demo_ppo", optimization={"num_epochs": 2})
    sampled, trained = sampled_tokens(config, GIVEN), trained_tokens(config, GIVEN)
    work = operations(1000, [(500, 180, 360)], sampled, trained, is_checkpointed, is_adapted)
    critic = 8 if is_checkpointed else 6
    assert work == {
        "rollouts": 2 * 1000 * 120,
        "values": 0,
        "prefixes": 2 * 1000 * sampled["fed"],
        "reference": 2 * 1000 * 180,
        "log-probabilities": 2 * 1000 * 180 + 2 * 500 * 180,
        "update": each * 1000 * 360 + critic * 500 * 360,
    }
    given = replace(GIVEN, num_gpus=4, tokens_per_s=10, train_tflops=1e-9)
    by_phase = seconds(work, sampled, given, num_engines=4)
    assert by_phase["rollouts"] == pytest.approx(120 / 40)
    assert by_phase["update"] == pytest.approx(work["update"] / 4000)
    assert set(by_phase) == set(work)
    only = seconds(work, sampled, replace(given, train_tflops=None), 4)
    assert set(only) == {"rollouts", "values"}
    assert seconds(work, sampled, GIVEN, 4) == {}
