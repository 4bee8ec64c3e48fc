#!/bin/sh
# From the repository's root, in the project's environment; after 03 and 07, whose runs it takes.
set -e
runs=${RUNS:-runs/03_value_accuracy}
python -m analysis kl-efficiency $runs/long_vineppo_k9_seed* $runs/long_ppo_seed* \
    $runs/long_modern_ppo_seed* --num-problems 128 --out experiments/05_kl_efficiency
