#!/bin/sh
# Rates of each method, for self-training whether an iteration starts over, and for reinforcement
# learning in RestEM's few large batches, on a seed that no comparison uses; one core, an hour. A
# finished run is not repeated.
set -e
here=experiments/17_without_rl
runs=${RUNS:-runs/17_without_rl_sweep}
export OMP_NUM_THREADS=1
common="--set seed=101 --set evaluation.every=0 --set checkpoint.every=0 --set logging.wandb_project=null"
for method in restem dpo dpo_steps; do
    for rate in $([ $method = restem ] && echo 5e-5 1e-4 2e-4 || echo 1e-5 2e-5 5e-5); do
        for restart in true false; do
            run=$runs/${method}_${rate}_$restart
            [ -d $run/final ] || vineppo sft configs/sft_credit_short_$method.jsonnet --run-dir $run $common \
                --set optimization.learning_rate=$rate --set self_training.restart=$restart
        done
    done
done
# One iteration more, whose rewards are those of the policy after three.
for method in grpo rloo vine_privileged oracle; do
    for rate in 5e-5 1e-4 2e-4; do
        run=$runs/${method}_large_$rate
        [ -d $run/final ] || vineppo train configs/credit_short_$method.jsonnet --run-dir $run $common \
            --set optimization.learning_rate=$rate --set num_iterations=4 --set optimization.num_epochs=4 \
            --set rollouts.num_prompts=40 --set rollouts.num_samples=8
    done
done
python $here/sweep.py $runs
