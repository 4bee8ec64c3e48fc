#!/bin/sh
# After 11, whose runs it takes; from the repository's root, in the project's environment, two cores.
# A run takes one to six minutes of one core, and a finished one is not repeated.
set -e
here=experiments/12_causes
runs=${RUNS:-runs}
experiments/sweep_two.sh $here/runs.jsonnet $runs/12_causes
python -m analysis compare $runs/12_causes/* $runs/11_credit/credit_short_ppo_seed* \
    $runs/11_credit/credit_short_oracle_seed* $runs/11_credit/credit_short_rloo_seed* \
    $runs/11_credit/credit_short_vineppo_k3_seed* --baseline "K = 0" --out $here/compare
rm $here/compare/summary.json
