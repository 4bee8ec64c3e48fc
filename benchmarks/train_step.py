"""The update against a bare forward-backward: what the trainer adds to what it cannot do without.

Ours is `update_policy`, all of it: collation, the clipped surrogate with its KL and metrics,
DeepSpeed, clipping, AdamW. The bare loop has the same model in the same precision and the very
micro-batches already made. It has the cross-entropy of the response's tokens in our chunks (nothing
else passes the vocabulary projection), and no optimizer. All see random tokens, in groups behind
one prompt: speed does not depend on them. Ours passes padded rows, as the bare loop does, and once
more packed, as training does, with each prompt once for its group. An update has the 64 sequences
of the published settings, as the optimizer's step costs the same for any number.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.workload import describe_workload, workload_config
from vineppo.batching import minibatches
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.models import LoadedModel, load_model
from vineppo.policy import Policy, checkpoint_activations
from vineppo.token_scores import Softmax, hidden_before_tokens, token_statistics
from vineppo.types import TokenSequence, TrainBatch
from vineppo.update import POLICY_COLUMNS, update_policy

BATCH_SIZE, QUICK_BATCH_SIZE = 64, 8


def main() -> None:
    options = parse_options("train_step", __doc__.splitlines()[0])
    with TemporaryDirectory(prefix="benchmark-") as directory:
        config = workload_config(options, Path(directory))
    batch_size = QUICK_BATCH_SIZE if options.is_quick else BATCH_SIZE
    optimization = replace(
        config.optimization, num_epochs=1, batch_size=batch_size, max_mean_ratio=None
    )
    config = replace(config, optimization=optimization)
    init_distributed()
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    sequences = random_sequences(config, loaded, batch_size)
    bare = load_model(config.model.path, config.model.dtype, config.model.attention).model
    policy = Policy(loaded, config.optimization, config.model.gradient_checkpointing)
    bare.to(policy.device).train()
    checkpoint_activations(bare, config.model.gradient_checkpointing)
    batches = [
        part.micro_batches
        for part in minibatches(
            SimpleNamespace(device=policy.device, packs=False),
            sequences,
            (),
            config.optimization,
            config,
            1,
        )
    ]
    packs = policy.packs

    def ours(is_packed: bool) -> None:
        policy.packs = is_packed
        metrics = update_policy(policy, sequences, [], None, config, 1, config.reference.kl_coef)
        assert metrics["policy/skipped_updates"] == 0

    def forward_backward() -> None:
        for micro_batches in batches:
            bare_update(bare, micro_batches)

    seconds = alternate(
        options.num_runs + 1,
        {
            "packed": lambda: timed(lambda: ours(packs)),
            "padded": lambda: timed(lambda: ours(False)),
            "bare": lambda: timed(forward_backward),
        },
    )
    seconds = {name: runs[1:] for name, runs in seconds.items()}  # the first ones warm up
    report(
        "train_step",
        options,
        options.num_runs,
        {
            "update / bare forward-backward, tokens/s": ratio(seconds["bare"], seconds["padded"]),
            "packed / padded, tokens/s": ratio(seconds["padded"], seconds["packed"]),
        },
        {
            "workload": describe_workload(config),
            "parameters": sum(weight.numel() for weight in bare.parameters()),
            "sequences": batch_size,
            "tokens": sum(len(sequence) for sequence in sequences),
            "seconds": seconds,
        },
    )


def timed(work: Callable[[], object]) -> float:
    """Seconds until the device is done."""
    synchronize()
    started = time.perf_counter()
    work()
    synchronize()
    return time.perf_counter() - started


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def random_sequences(config: TrainConfig, loaded: LoadedModel, count: int) -> list[TokenSequence]:
    """Prompts of a quarter to a half, responses of a half to all of the response's budget; as many
    behind a prompt as a group has."""
    stream = random.Random(config.seed)
    uniform = -math.log(loaded.engine_model.num_token_ids)
    most = config.sampling.max_tokens
    sequences = []
    prompt_ids: tuple[int, ...] = ()

    def random_ids(length: int) -> tuple[int, ...]:
        return tuple(stream.randrange(loaded.engine_model.num_token_ids) for _ in range(length))

    for number in range(count):
        if number % config.rollouts.num_samples == 0:
            prompt_ids = random_ids(stream.randint(most // 4, most // 2))
        response_ids = random_ids(stream.randint(most // 2, most))
        zeros, ones = (0.0,) * len(response_ids), (1.0,) * len(response_ids)
        columns: dict[str, Sequence[float]] = dict.fromkeys(POLICY_COLUMNS, zeros)
        columns |= dict.fromkeys(("is_trained", "importance"), ones)
        columns["loss_advantages"] = [stream.gauss(0, 1) for _ in response_ids]
        columns["old_logprobs"] = (uniform,) * len(response_ids)
        sequences.append(TokenSequence(prompt_ids, response_ids, tokens_T=columns))
    return sequences


def bare_update(model: Any, micro_batches: Sequence[TrainBatch]) -> None:
    for batch in micro_batches:
        hidden_NH = hidden_before_tokens(model.base_model, batch)
        targets_N = batch.token_ids_BT.flatten()[batch.response_index_N]
        logits_NV = model.get_output_embeddings()(hidden_NH)
        softmax = Softmax(logits_NV.shape[1], None, 1.0)
        logprobs_N, *_ = token_statistics(logits_NV, targets_N, softmax, False, None)
        (-logprobs_N.mean()).backward()
    model.zero_grad()


if __name__ == "__main__":
    run_main(main)
