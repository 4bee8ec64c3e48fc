#!/bin/sh
# After 11, whose runs it takes; from the repository's root, in the project's environment, two cores.
# A run takes one to six minutes of one core, and a finished one is not repeated.
set -e
here=experiments/12_causes
runs=${RUNS:-runs}
[ -d runs/deep_critic ] || python $here/deepen.py runs/deep_critic  # where runs.jsonnet looks for it
experiments/sweep_two.sh $here/bigger.jsonnet $runs/12_bigger
python experiments/11_credit/sweep.py $runs/12_bigger
experiments/sweep_two.sh $here/runs.jsonnet $runs/12_causes
python -m analysis compare $(ls -d $runs/12_causes/* | grep -v pretrained) $runs/11_credit/credit_short_ppo_seed* \
    $runs/11_credit/credit_short_oracle_seed* $runs/11_credit/credit_short_rloo_seed* \
    $runs/11_credit/credit_short_vineppo_k3_seed* --baseline "K = 0" --out $here/compare
versus() {  # BASELINE TABLE: the same runs, less another one
    python -m analysis compare $here/compare --baseline "$1" --out $runs/versus/$2
    cp $runs/versus/$2/compare.csv $here/versus_$2.csv
}
versus "VinePPO, return less value, K = 3" gae_k3
versus "lagging count of skills, return less value" exact_gae
versus PPO ppo
python -m analysis experiments/12_causes/critic_health.py $runs/11_credit/credit_short_ppo_seed* $runs/11_credit/credit_short_vine_efficient_seed* \
    --out $here/health
# Its 30 iterations before the policy moves leave it no iteration in common with the others.
python -m analysis learning-curves $runs/12_causes/*pretrained* --out $runs/pretrained
cp $runs/pretrained/summary.csv $here/pretrained.csv
