#!/bin/sh
# From the repository's root, in the project's environment; after 03, 07 and 11, whose runs it takes.
set -e
runs=${RUNS:-runs/03_value_accuracy}
python -m analysis kl-efficiency $runs/long_vineppo_k9_seed* $runs/long_ppo_seed* \
    $runs/long_modern_ppo_seed* --problems 128 --out experiments/05_kl_efficiency
here=experiments/05_kl_efficiency/credit_short  # after 11
set --
for method in rloo grpo ppo oracle vineppo_k3; do
    for seed in 1 2 3 4 5 6 7 8; do
        set -- "$@" ${RUNS_CREDIT:-runs/11_credit}/credit_short_${method}_seed$seed
    done
done
python -m analysis kl-efficiency "$@" --out $here
