#!/bin/sh
# From the repository's root, in the project's environment; after 03 and 06, whose runs it takes.
set -e
here=experiments/07_wall_clock
runs=${RUNS:-runs}
experiments/sweep_two.sh $here/runs.jsonnet $runs/07_wall_clock
python -m analysis learning-curves $runs/03_value_accuracy/long_vineppo_k9_seed* \
    $runs/03_value_accuracy/long_ppo_seed* $runs/03_value_accuracy/long_modern_ppo_seed* \
    $runs/07_wall_clock/* --out $here/long
python experiments/equal_cost_of.py $here/long long_vineppo_k9 long_ppo
python experiments/equal_cost_of.py $here/long long_vineppo_k9 long_modern_ppo
python experiments/equal_cost_of.py $here/long long_ppo long_grpo
python -m analysis learning-curves $runs/06_temperature/demo_vineppo_t1_seed* \
    $runs/06_temperature/demo_ppo_t1_seed* --out $here/demo
