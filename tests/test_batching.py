import random
from itertools import groupby

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from vineppo.batching import (
    MAX_PADDING,
    collate,
    grouped_minibatches,
    ranks_share,
    response_rows,
)
from vineppo.types import TokenSequence, Turn


def padding_frac(lengths, micro_batches):
    """The share of padding among the tokens of a pass: Σ(longest − length) / Σ longest."""
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in micro_batches)
    return (padded - sum(lengths)) / padded


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 9), st.integers(0, 5))
def test_groups_stay_together_where_updates_have_room(sizes, batch_size, seed):
    groups = [name for name, size in enumerate(sizes) for _ in range(size)]
    random.Random(seed).shuffle(groups)  # as they come, whatever the order
    minibatches = grouped_minibatches(groups, batch_size, seed)
    order = [i for batch in minibatches for i in batch]
    assert sorted(order) == list(range(len(groups)))
    assert all(len(batch) == batch_size for batch in minibatches[:-1])
    runs = [name for name, _ in groupby(groups[i] for i in order)]
    assert sorted(runs) == list(range(len(sizes)))  # each group once, uncut but by updates


def test_what_meets_depends_on_the_seed_alone():
    for groups in ([i // 4 for i in range(32)], range(32)):
        drawn = [grouped_minibatches(groups, 8, seed) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]


def test_ranks_share_docstring_examples():
    buckets = ranks_share([3, 9, 4, 8], 2)
    assert buckets == [[1, 3], [2], [0]]
    assert padding_frac([3, 9, 4, 8], buckets) == pytest.approx(1 / 25)
    assert padding_frac([3, 9, 4, 8], [[1, 3], [2, 0]]) == pytest.approx(2 / 26)
    assert ranks_share([2, 2, 2, 2, 8], 1) == [[4], [0, 1, 2, 3]]
    assert [ranks_share([3, 9, 4], 2, rank, 2) for rank in (0, 1)] == [[[1], [0]], [[2], []]]


@given(
    st.lists(st.integers(1, 2000), min_size=1, max_size=80), st.integers(1, 64), st.integers(1, 4)
)
@example([1, 1, 198, 260, 325, 325, 325, 360, 496, 1163, 1277], 3, 1)  # exactly the limit
def test_ranks_share_all_sequences_with_little_padding(lengths, size, num_ranks):
    """Whatever the lengths; over several ranks, the longest of each row of ranks counts."""
    longest = sorted(lengths, reverse=True)[::num_ranks]
    buckets = ranks_share(longest, size)
    assert padding_frac(longest, buckets) <= MAX_PADDING
    shares = [ranks_share(lengths, size, rank, num_ranks) for rank in range(num_ranks)]
    assert [len(batch) for batch in shares[0]] == [len(batch) for batch in buckets]
    assert len({len(share) for share in shares}) == 1
    passes = [[lengths[i] for i in batch] for share in shares for batch in share if batch]
    assert sorted(i for share in shares for batch in share for i in batch) == [*range(len(lengths))]
    assert max(len(one) * max(one) for one in passes) <= size * max(lengths)


def test_collate_aligns_every_position_with_its_token():
    columns = ("logprobs", "is_trained", "values/critic")
    first = {
        "logprobs": (-0.1, -0.2, -0.3),
        "is_trained": (True, False, True),
        "values/critic": (0.5, 0.25, 0.125),
        "not asked for": (),
    }
    second = {"logprobs": (-0.4,), "is_trained": (True,), "values/critic": (0.75,)}
    batch = collate(
        [TokenSequence((7, 8), (1, 2, 3), tokens_T=first),
         TokenSequence((9,), (4,), tokens_T=second)],
        torch.device("cpu"),
        columns,
    )  # fmt: skip
    assert batch.token_ids_BT.tolist() == [[7, 8, 1, 2, 3], [9, 4, 0, 0, 0]]
    assert batch.response_mask_BT.tolist() == [
        [False, False, True, True, True],
        [False, True] + [False] * 3,
    ]
    assert batch.token_ids_BT[batch.response_mask_BT].tolist() == [1, 2, 3, 4]
    torch.testing.assert_close(
        batch["logprobs"][batch.response_mask_BT], torch.tensor([-0.1, -0.2, -0.3, -0.4])
    )
    assert batch["values/critic"].tolist() == [[0, 0, 0.5, 0.25, 0.125], [0, 0.75, 0, 0, 0]]
    assert batch["is_trained"].dtype == torch.bool
    assert batch["is_trained"].int().tolist() == [[0, 0, 1, 0, 1], [0, 1, 0, 0, 0]]
    assert batch.columns_BT.keys() == set(columns)
    assert batch.response_index_N.tolist() == [2, 3, 4, 6]
    assert batch.num_tokens == 7


def test_an_environments_tokens_are_no_response():
    """Whatever their columns hold: turns of two tokens and one, with two of it between."""
    turns = (Turn(0, 2, "a", 0.0), Turn(4, 5, "b", 1.0))
    nan = float("nan")
    dialogue = TokenSequence(
        (7, 8), (1, 2, 3, 4, 5), tokens_T={"logprobs": (-0.5, -1.0, nan, nan, -1.5)}, turns=turns
    )
    plain = TokenSequence((9,), (6,), tokens_T={"logprobs": (-2.0,)})
    batch = collate([dialogue, plain], torch.device("cpu"), ("logprobs",))
    assert batch.token_ids_BT[0].tolist() == [7, 8, 1, 2, 3, 4, 5]
    assert batch.response_mask_BT[0].int().tolist() == [0, 0, 1, 1, 0, 0, 1]
    assert batch["logprobs"][0].tolist() == [0, 0, -0.5, -1, 0, 0, -1.5]
    assert batch.response_index_N.tolist() == [2, 3, 6, 8]
    rows = response_rows([batch["logprobs"]], batch, [dialogue, plain])
    assert rows == [((-0.5, -1.0, 0.0, 0.0, -1.5),), ((-2.0,),)]
    assert (sum(dialogue.is_action_T), sum(plain.is_action_T)) == (3, 1)
