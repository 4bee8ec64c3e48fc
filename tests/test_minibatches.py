"""An iteration's updates: sizes, learning rates, and which of them may be applied."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.rollouts import CPU, sequence

from vineppo.batching import UpdateSizes, is_sound, minibatches
from vineppo.types import TokenSequence

PADDED, PACKED = (SimpleNamespace(device=CPU, packs=packs) for packs in (False, True))


def test_the_schedule_starts_after_the_warm_up(config):
    """Linear to 0 over 2 of 3 iterations of 2 epochs with 2 updates: 8/8, 7/8, … of the rate."""
    optimization = replace(
        config.optimization, num_epochs=2, batch_size=3, micro_batch_size=2, learning_rate=1.0,
        schedule="linear", warmup_fraction=0.0,
    )  # fmt: skip
    run = replace(config, num_iterations=3, optimization=optimization)
    sequences = [TokenSequence((1,), (2,) * n) for n in (1, 2, 3, 4)]
    parts = [
        part
        for iteration in (2, 3)
        for part in minibatches(
            PADDED, sequences, (), optimization, run, iteration, first_iteration=2
        )
    ]
    assert [part.learning_rate for part in parts] == pytest.approx([(8 - i) / 8 for i in range(8)])
    counts = [[len(batch.token_ids_BT) for batch in part.micro_batches] for part in parts[:2]]
    assert list(map(sum, counts)) == [3, 1]  # nothing is dropped
    for epoch in range(4):
        both = parts[2 * epoch : 2 * epoch + 2]
        assert sum(part.sizes.response_tokens for part in both) == 1 + 2 + 3 + 4


def test_of_whole_groups_each_prompt_passes_once(config):
    """Responses of 4 tokens behind 16 prompts of 10, four each, in updates of two groups' size."""
    sequences = [TokenSequence((i // 4,) * 10, (2,) * 4) for i in range(64)]
    passed = {}
    for shuffle in ("rollouts", "groups"):
        optimization = replace(
            config.optimization, num_epochs=1, batch_size=8, micro_batch_size=8, shuffle=shuffle
        )
        run = replace(config, optimization=optimization)
        parts = list(minibatches(PACKED, sequences, (), optimization, run, 1))
        assert len(parts) == 8
        passed[shuffle] = sum(b.num_tokens for part in parts for b in part.micro_batches)
    assert passed["groups"] == 16 * 10 + 64 * 4
    assert passed["rollouts"] > 1.5 * passed["groups"]


def test_sizes_count_what_trains():
    """Two of 3 + 1 tokens train, all in one sequence; the other sequence is positive."""
    first = sequence((1,), (2, 3, 4), is_trained=(True, False, True))
    second = sequence((1,), (5,), is_trained=(False,), is_positive=(True,))
    sizes = UpdateSizes.of([first, second], 7)
    assert (sizes.trained.num_tokens, sizes.trained.num_sequences) == (2, 1)
    assert (sizes.trained.max_tokens, sizes.response_tokens, sizes.positive_tokens) == (7, 4, 1)
    bare = UpdateSizes.of([TokenSequence((1,), (2, 3))], 7)
    assert (bare.trained.num_tokens, bare.positive_tokens) == (2, 0)


def test_an_update_is_judged_by_all_its_micro_batches():
    def stats(*numbers):
        return [{"loss": loss, "ratio_mean": ratio} for loss, ratio in numbers]

    assert is_sound(2.0, stats((0.5, 1.0), (-3.0, 1.0)))
    assert not is_sound(2.0, stats((0.5, 1.5), (-3.0, 0.6)))
    assert is_sound(None, stats((0.5, 1.5), (-3.0, 600.0)))
    for broken in (float("nan"), float("inf")):
        assert not is_sound(None, stats((0.5, 1.0), (broken, 1.0)))
