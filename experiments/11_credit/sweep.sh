#!/bin/sh
# Learning rates on credit_short: every method at five rates and two seeds that no comparison uses.
# From the repository's root, in the project's environment; a run takes about a minute of one core,
# and a finished one is not repeated. The table is written anew after every run.
set -e
runs=${RUNS:-runs/11_credit_sweep}
for rate in 1e-4 5e-5 2e-4 2.5e-5 4e-4; do
    for seed in 101 102; do
        for method in rloo grpo oracle ppo reinforce; do
            run=$runs/${method}_${rate}_seed$seed
            [ -d $run/final ] && continue
            OMP_NUM_THREADS=1 vineppo train configs/credit_short_$method.jsonnet --run-dir $run \
                --set seed=$seed --set optimization.learning_rate=$rate --set evaluation.every=0 \
                --set checkpoint.every=0 --set logging.wandb_project=null
            python experiments/11_credit/sweep.py $runs
        done
    done
done
