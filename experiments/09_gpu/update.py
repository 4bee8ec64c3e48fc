"""What an update takes where no pass had its lengths before, and where the same comes again.

    PYTHONPATH=. python experiments/09_gpu/update.py FILE.csv [--set dotted.key=value …]

Sequences are train_step's. A row is one way to pass them: with cuDNN's attention or without,
activations recomputed or kept, micro-batches of 32 or 8, packed or padded. `first_s` are seconds of
the first update of such passes, `again_s` of the second.
"""

import argparse
import csv
import gc
import itertools
from dataclasses import replace

import torch

from benchmarks.products import timed
from benchmarks.train_step import random_sequences
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.models import load_model
from vineppo.policy import Policy
from vineppo.update import update_policy

CONFIG = "experiments/09_gpu/rho_shape.jsonnet"
WAYS = itertools.product((True, False), ((False, 32), (True, 32), (True, 8), (False, 8)))


class CountedPolicy(Policy):
    def update(self, micro_batches, *rest):
        self.num_passes = len(micro_batches)
        return super().update(micro_batches, *rest)


def rows(config, has_cudnn, is_recomputing):
    loaded = load_model(config.model.path, config.model.dtype, "sdpa")
    torch.backends.cuda.enable_cudnn_sdp(has_cudnn)
    sequences = random_sequences(config, loaded, config.optimization.batch_size)
    policy = CountedPolicy(loaded, config.optimization, is_recomputing)
    for is_packed in (policy.packs, False):
        policy.packs = is_packed
        first_s, again_s = (
            timed(lambda: update_policy(policy, sequences, [], None, config, 1, 0.0))
            for _ in range(2)
        )
        ways = {"cudnn": has_cudnn, "recomputed": is_recomputing, "packed": is_packed}
        yield {
            **{name: "yes" if value else "no" for name, value in ways.items()},
            "micro_batch": config.optimization.micro_batch_size,
            "passes": policy.num_passes,
            "tokens": sum(map(len, sequences)),
            "first_s": round(first_s, 3),
            "again_s": round(again_s, 3),
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
    for has_cudnn, (is_recomputing, micro_batch) in WAYS:
        optimization = replace(config.optimization, micro_batch_size=micro_batch)
        for row in rows(replace(config, optimization=optimization), has_cudnn, is_recomputing):
            if options.out.tell() == 0:
                writer.writerow(row)
            writer.writerow(row.values())
            options.out.flush()
        gc.collect()  # the model of this way, before the next one's
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
