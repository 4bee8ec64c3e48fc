#!/bin/sh
# From the repository's root, in the project's environment, two cores; after 03, whose runs with K = 9
# it takes. What is finished is not repeated.
set -e
here=experiments/08_continuations
runs=${RUNS:-runs}
experiments/sweep_two.sh $here/runs.jsonnet $runs/08_continuations
python -m analysis learning-curves $runs/03_value_accuracy/long_vineppo_k9_seed* \
    $runs/08_continuations/long_vineppo_k1_seed* $runs/08_continuations/long_vineppo_k3_seed* \
    $runs/08_continuations/long_vineppo_k27_seed* --out $here
python experiments/equal_cost_of.py $here long_vineppo_k9 long_vineppo_k1 long_vineppo_k3
