#!/bin/sh
# From the repository's root, in the project's environment; two cores. What is there is kept.
set -e
here=experiments/03_value_accuracy
runs=${RUNS:-runs/03_value_accuracy}
experiments/sweep_two.sh $here/runs.jsonnet $runs
truths() {
    for run in "$@"; do
        OMP_NUM_THREADS=1 taskset -c "$core" python -m analysis ground-truth "$run" \
            --checkpoints 3,6,9 --states 160
    done
}
core=0 && truths $runs/long_vineppo_k9_seed* $runs/long_ppo_seed1 $runs/long_ppo_seed2 &
core=1 && truths $runs/long_modern_ppo_seed* $runs/long_ppo_seed3
wait $!
python -m analysis value-accuracy $runs/long_vineppo_k9_seed* $runs/long_ppo_seed* \
    $runs/long_modern_ppo_seed* --out $here
python $here/shrinkage.py
# On credit_short, after 11: the scores of both seeds pooled, at step boundaries.
set --
for seed in 5 6; do
    for method in ppo vine_efficient; do
        run=${RUNS_CREDIT:-runs/11_credit}/credit_short_${method}_seed$seed
        python -m analysis ground-truth $run --checkpoints 20,40 --states 128 --draws 9
        set -- "$@" $run
    done
done
python -m analysis value-accuracy "$@" --out runs/03_credit
cp runs/03_credit/value_accuracy_states.parquet $here/credit_short
grep -E '^method|,5 6,.*,boundaries,' runs/03_credit/value_accuracy.csv > $here/credit_short/value_accuracy.csv
