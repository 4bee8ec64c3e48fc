"""Replicas that share the work find the values of one, and have equally much to do."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.grids import grid
from support.processes import call_on_ranks
from support.random_walk import problem, prompt_ids
from support.rollouts import CPU
from support.uncertain import UNCERTAIN
from support.walks import (
    CREDIT,
    SlottedEngine,
    entropies_of_lines,
    walk_config,
    walked,
)

from vineppo import experience
from vineppo.distributed import deal, gather, init_distributed, rank, ranks_of_replica
from vineppo.experience import Experience
from vineppo.rollouts import Prompt
from vineppo.segment import Segmenter
from vineppo.token_scores import ForwardOptions, RolloutPass, TokenScores, entropies
from vineppo.types import MONTE_CARLO, TrainBatch

MAX_TOKENS, NUM_SAMPLES = 60, 6
# Walks from the middle are longer than those from beside an end: of two replicas, the one with the
# problems at even places has a third more to do.
STARTS = (2, 1) * 4


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_the_costliest_goes_first_and_to_whoever_has_least():
    assert deal([10, 0], [3, 8, 4]) == [0, 1, 1]
    assert deal([0, 0, 0], [1, 1, 1]) == [0, 1, 2]
    assert deal([5], [1, 2]) == [0, 0]
    assert deal([5, 0], []) == []


def experience_of(
    identical_prefixes: str,
    seed: int,
    ranks_a_replica: int = 1,
    by_entropies: Segmenter | None = None,
) -> tuple[Experience, SlottedEngine]:
    """That of this rank or of a lone process, and its engine."""
    engine = SlottedEngine()
    engine.ranks_a_replica = ranks_a_replica
    credit = replace(CREDIT, identical_prefixes=identical_prefixes)
    entropy_pass = None
    if by_entropies is not None:
        credit = replace(credit, segmenter=by_entropies)
        ranks = ranks_of_replica(ranks_a_replica)
        forward = entropies(entropies_of_one_rank, 1.0)
        entropy_pass = RolloutPass("entropies", forward, 2, CPU, ranks)
    prompts_P = [
        Prompt(replace(problem(start), id=f"walk/{place}"), prompt_ids(start))
        for place, start in enumerate(STARTS)
    ]
    config = walk_config(MAX_TOKENS, seed, credit, NUM_SAMPLES)
    found, _ = walked(config, engine, prompts_P, entropy_pass=entropy_pass)
    return found, engine


def entropies_of_one_rank(batch: TrainBatch, options: ForwardOptions) -> TokenScores:
    """Ranks at odd places would find others: there every response is a single step."""
    scores = entropies_of_lines(batch, options)
    return replace(scores, entropy_BT=scores.entropy_BT * (rank() % 2 == 0))


def run_rank(
    rank: int, world: int, port: int, kind: str, early: float, ranks_a_replica: int,
    by_entropies: Segmenter | None, out: str,
) -> None:  # fmt: skip
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    init_distributed()
    experience.EARLY = early
    found, engine = experience_of(kind, 5, ranks_a_replica, by_entropies)
    everyone = gather((len(engine.requests), engine.num_steps))
    if rank == 0:
        torch.save((found, everyone), out)
    torch.distributed.destroy_process_group()


def on_ranks(
    world: int,
    kind: str,
    out: Path,
    port: int,
    early: float = 0.5,
    ranks_a_replica: int = 1,
    by_entropies: Segmenter | None = None,
) -> tuple[Experience, list[tuple[int, int]]]:
    """Rank 0's values, and each rank's requests and steps."""
    given = (world, port, kind, early, ranks_a_replica, by_entropies, str(out))
    call_on_ranks(run_rank, *given, num_ranks=world)
    found: tuple[Experience, list[tuple[int, int]]] = torch.load(out, weights_only=False)
    return found


def assert_same(here: Experience, there: Experience) -> None:
    assert [r.response_ids for r in here.rollouts] == [r.response_ids for r in there.rollouts]
    for mine, alone in zip(here.rollouts, there.rollouts, strict=True):
        for value, expected in zip(*(r.returns_S[MONTE_CARLO] for r in (mine, alone)), strict=True):
            assert value.returns_K == expected.returns_K


@pytest.mark.parametrize("num_ranks", grid(2, slow=[3]))
@pytest.mark.parametrize("kind", ["share", "separate"])
def test_the_values_are_those_of_one_replica(num_ranks, kind, tmp_path, free_port):
    here, _ = on_ranks(num_ranks, kind, tmp_path / "found.pt", free_port)
    there, _ = experience_of(kind, seed=5)
    assert_same(here, there)


def test_replicas_have_equally_much_to_do(tmp_path, free_port):
    _, alone = on_ranks(2, "separate", tmp_path / "alone.pt", free_port, early=1.0)
    _, sharing = on_ranks(2, "separate", tmp_path / "sharing.pt", free_port)
    (requests_alone, steps_alone), (requests, steps) = (
        zip(*alone, strict=True),
        zip(*sharing, strict=True),
    )
    assert max(steps_alone) / min(steps_alone) > 1.25
    assert max(steps) / min(steps) < 1.15
    assert sum(requests) == sum(requests_alone)


def test_ranks_of_one_replica_ask_for_the_same(tmp_path, free_port):
    """Four ranks, two replicas: the values of one process, and everything counted once."""
    here, counts = on_ranks(4, "separate", tmp_path / "found.pt", free_port, ranks_a_replica=2)
    there, alone = experience_of("separate", seed=5)
    assert_same(here, there)
    assert counts[0] == counts[1]
    assert counts[2] == counts[3]
    assert counts[0][0] + counts[2][0] == len(alone.requests)
    assert here.num_continuations == there.num_continuations


def test_ranks_of_one_replica_cut_alike_whatever_each_finds(tmp_path, free_port):
    """Half of the passes, those of the odd ranks, see no step but the first."""
    found, counts = on_ranks(
        4, "share", tmp_path / "found.pt", free_port, ranks_a_replica=2,
        by_entropies=UNCERTAIN,
    )  # fmt: skip
    assert counts[0] == counts[1]
    assert counts[2] == counts[3]
    num_single = sum(len(one.spans_S) == 1 for one in found.rollouts)
    assert len(found.rollouts) // 4 < num_single < 3 * len(found.rollouts) // 4
