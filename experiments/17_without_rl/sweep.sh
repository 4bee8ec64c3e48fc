#!/bin/sh
# Rates of each method, and whether an iteration starts over, on a seed that no comparison uses; one
# core, half an hour. A finished run is not repeated.
set -e
runs=${RUNS:-runs/17_without_rl_sweep}
export OMP_NUM_THREADS=1
for method in restem dpo dpo_steps; do
    for rate in $([ $method = restem ] && echo 5e-5 1e-4 2e-4 || echo 1e-5 2e-5 5e-5); do
        for restart in true false; do
            run=$runs/${method}_${rate}_$restart
            [ -d $run/final ] || vineppo sft configs/sft_credit_short_$method.jsonnet --run-dir $run --set seed=101 \
                --set optimization.learning_rate=$rate --set self_training.restart=$restart \
                --set evaluation.every=0 --set checkpoint.every=0 --set logging.wandb_project=null
        done
    done
done
