"""Responses of a policy as it samples, and the exact KL to the starting policy along them."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from analysis.sampling.journal import Journal
from analysis.sampling.policies import Checkpoint, Policies, choose_checkpoints, make_tables
from analysis.sampling.rollouts import sample_responses
from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, bootstrap_sums, ratio
from analysis.tables import read_rows
from vineppo.config.schema import TrainConfig
from vineppo.policy import Reference
from vineppo.rollouts import Prompt
from vineppo.token_scores import ForwardOptions, Rows, TokenLogprobs, token_columns
from vineppo.types import Rollout, TrainBatch, derive_seed, question_of

STREAM = "kl-efficiency"
FOLDER = "kl_samples"
NUM_RESAMPLES = 2000
# One row per response; `kl` is the sum of its tokens' exact KL, in nats.
SAMPLE_SCHEMA = pa.schema(
    {"problem_id": pa.string(), "sample_index": pa.int32(), "num_tokens": pa.int32()}
    | {"kl": pa.float64(), "reward": pa.float32(), "is_truncated": pa.bool_()}
)


def sample_cells(
    run_paths: Sequence[Path], out: Path, checkpoints: str, settings: dict[str, Any]
) -> dict[Path, dict[int, dict[str, Any]]]:
    """`cells_of` the chosen checkpoints by run and iteration, sampled where they are not there."""
    chosen = choose_checkpoints(run_paths, checkpoints, out, FOLDER, settings)
    make_tables(chosen, SAMPLE_SCHEMA, kl_rows)
    cells: dict[Path, dict[int, dict[str, Any]]] = {path: {} for path in run_paths}
    for checkpoint in chosen:
        cells[checkpoint.run_path][checkpoint.iteration] = cells_of(read_samples(checkpoint.table))
    return cells


def cells_of(samples: pd.DataFrame) -> dict[str, Any]:
    """Means over the responses of a checkpoint, intervals clustered on problems.

    kl_per_token is Σ kl/Σ tokens, kl_per_sequence the mean of kl over responses: Monte-Carlo means
    over sequences of sums that are exact over the vocabulary. Responses of 2 and 4 tokens with 1
    and 2 nats: 0.5 nats a token, 1.5 a response. A response is right when its reward is above 0.5,
    as in an evaluation.
    """
    terms = {
        "count": np.ones(len(samples)),
        "kl": samples["kl"].to_numpy(float),
        "tokens": samples["num_tokens"].to_numpy(float),
        "correct": (samples["reward"] > 0.5).to_numpy(float),
    }
    statistics = {
        "kl_per_token": lambda sums: ratio(sums["kl"], sums["tokens"]),
        "kl_per_sequence": lambda sums: ratio(sums["kl"], sums["count"]),
        "sample_pass@1": lambda sums: ratio(sums["correct"], sums["count"]),
    }
    questions = samples["problem_id"].map(question_of).tolist()
    estimates = bootstrap_sums(
        terms, questions, statistics, np.random.default_rng(BOOTSTRAP_SEED),
        num_resamples=NUM_RESAMPLES, level=LEVEL,
    )  # fmt: skip
    num_problems = samples["problem_id"].nunique()
    return estimates | {
        "num_problems": num_problems,
        "samples_per_problem": len(samples) // num_problems,
        "response_length": samples["num_tokens"].mean(),
    }


def read_samples(path: Path) -> pd.DataFrame:
    """Raises `UserError` for a file that is missing, damaged, empty or of other columns."""
    return pd.DataFrame(read_rows(path, SAMPLE_SCHEMA, "response"))


def kl_rows(
    policies: Policies,
    checkpoint: Checkpoint,
    journal: Journal,  # noqa: ARG001
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row a response to a test problem, by the checkpoint's policy; nothing to note besides."""
    settings = checkpoint.settings
    model = policies.load(checkpoint.policy_path)
    prompts_P = choose_prompts(policies.test_P, settings["num_problems"], settings["seed"])
    stream = (checkpoint.iteration, STREAM)
    rollouts = sample_responses(
        policies.sampler, prompts_P, settings["num_samples"], stream, checkpoint.title
    )
    with policies.engine_asleep():
        module = TokenLogprobs(model, policies.loaded.engine_model.num_token_ids)
        kl = exact_kl(module, policies.start, rollouts, policies.config)
    rows = [
        {
            "problem_id": rollout.problem.id,
            "sample_index": rollout.rollout_index,
            "num_tokens": len(kl_T),
            "kl": float(sum(kl_T)),
            "reward": rollout.reward,
            "is_truncated": rollout.finish_reason == "length",
        }
        for rollout, kl_T in zip(rollouts, kl, strict=True)
    ]
    return rows, {}


def exact_kl(
    module: TokenLogprobs, start: Reference, rollouts: Sequence[Rollout], config: TrainConfig
) -> Rows:
    """KL(π(· | s_t) ‖ π_start(· | s_t)) in nats at every token t of every response.

    Over the whole vocabulary, both at the training temperature. A cut (top_p, top_k, min_p) is
    ignored, because the starting policy has no probability beyond its own.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start.to(device)
    module.to(device).eval()
    options = ForwardOptions(config.sampling.temperature, reference=start)

    def forward(batch: TrainBatch) -> tuple[torch.Tensor]:
        return (module(batch, options)["kl_BT"],)

    size = config.optimization.logprobs_micro_batch_size
    (kl,) = token_columns(forward, rollouts, size, device)
    start.to(torch.device("cpu"))
    return kl


def choose_prompts(prompts_P: Sequence[Prompt], num_problems: int, seed: int) -> list[Prompt]:
    """A seeded sample of the problems, the same for every run and checkpoint; at most all."""
    count = min(num_problems, len(prompts_P))
    chosen = random.Random(derive_seed(seed, STREAM, "problems")).sample(
        range(len(prompts_P)), count
    )
    return [prompts_P[place] for place in sorted(chosen)]
