"""Seconds of an update with new lengths, and of the same update again.

    PYTHONPATH=. python experiments/09_gpu/update.py FILE.csv [--set dotted.key=value …]

Sequences are of train_step's kind. A row is one way to pass them: with cuDNN's attention or
without, activations recomputed or kept, micro-batches of 32 or 8, packed or padded. `first_s` are
seconds of the first update of these sequences, `again_s` of the second; another, of other
sequences, has warmed the model up.
"""

import argparse
import csv
import gc
import itertools
from dataclasses import replace

import torch

from benchmarks.train_step import random_sequences, timed
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.models import load_model
from vineppo.policy import Policy
from vineppo.update import update_policy

CONFIG = "experiments/09_gpu/rho_shape.jsonnet"
BOTH = True, False


class CountedPolicy(Policy):
    def update(self, micro_batches, *rest):
        self.num_passes = len(micro_batches)
        return super().update(micro_batches, *rest)


def rows(config, has_cudnn, is_recomputing):
    loaded = load_model(config.model.path, config.model.dtype, "sdpa")
    policy = CountedPolicy(loaded, config.optimization, is_recomputing)
    torch.backends.cuda.enable_cudnn_sdp(has_cudnn)
    for is_packed in (policy.packs, False):
        policy.packs = is_packed
        warming, sequences = (
            random_sequences(replace(config, seed=2 * config.seed + i), loaded, size)
            for i, size in enumerate((8, config.optimization.batch_size))
        )
        seconds = [
            timed(lambda found=found: update_policy(policy, found, [], None, config, 1, 0.0))
            for found in (warming, sequences, sequences)
        ]
        ways = {"cudnn": has_cudnn, "recomputed": is_recomputing, "packed": is_packed}
        yield {
            **{name: "yes" if value else "no" for name, value in ways.items()},
            "micro_batch": config.optimization.micro_batch_size,
            "passes": policy.num_passes,
            "tokens": sum(map(len, sequences)),
            "first_s": round(seconds[1], 3),
            "again_s": round(seconds[2], 3),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=argparse.FileType("w"))
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    given = ["sampling.max_tokens=512", "optimization.num_epochs=1", *options.set]
    config = load_config(TrainConfig, CONFIG, given)
    init_distributed()
    writer = csv.writer(options.out, lineterminator="\n")
    ways = itertools.product(BOTH, BOTH, (32, 8))
    for seed, (has_cudnn, is_recomputing, micro_batch) in enumerate(ways):
        optimization = replace(config.optimization, micro_batch_size=micro_batch)
        way = replace(config, seed=seed, optimization=optimization)  # lengths of its own
        for row in rows(way, has_cudnn, is_recomputing):
            if options.out.tell() == 0:
                writer.writerow(row)
            writer.writerow(row.values())
            options.out.flush()
        gc.collect()  # the model of this way, before the next one's
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
