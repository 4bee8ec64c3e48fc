#!/bin/sh
# The learning rates of the demo's configs: six runs a method, compared by the mean training reward of
# the last four of twelve iterations. No test problem is looked at.
set -e
runs=${RUNS:-runs/02_sweep}
try() { # config without its suffix, name, further assignments
    config=$1 name=$2
    shift 2
    OMP_NUM_THREADS=1 vineppo train $config.jsonnet --run-dir $runs/$name \
        --set seed=101 --set num_iterations=12 --set evaluation.every=0 \
        --set evaluation.num_samples=1 --set task.num_test_problems=8 --set checkpoint.every=0 \
        --set logging.wandb_project=null "$@"
}
try_rates() { # method, rates
    method=$1
    shift
    leaf=configs/demo_$method
    [ $method = reinforce ] && leaf=configs/recipes/reinforce_plus_plus
    k=""
    [ $method = vineppo ] && k="--set credit.num_continuations=9"
    for rate in "$@"; do
        try $leaf ${method}_$rate --set optimization.learning_rate=$rate $k
    done
}
try_rates vineppo 3e-5 6e-5 1e-4 2e-4 4.5e-5 8e-5
try_rates grpo 3e-5 6e-5 1e-4 2e-4 4.5e-5 8e-5
try_rates rloo 3e-5 6e-5 1e-4 2e-4 1.4e-4 4e-4
try_rates reinforce 3e-5 6e-5 1e-4 2e-4 8e-5 1.4e-4
for pair in 3e-5,3e-4 3e-5,1e-3 6e-5,1e-3 1e-4,1e-3 1e-4,3e-3 2e-4,1e-3; do
    try configs/demo_ppo ppo_$pair --set optimization.learning_rate=${pair%,*} \
        --set critic.learning_rate=${pair#*,}
done
for pair in 3e-5,0.5 6e-5,0.5 1e-4,0.5 6e-5,2 6e-5,8 1e-4,2; do
    try experiments/02_baselines/demo_modern_ppo modern_ppo_$pair --set optimization.learning_rate=${pair%,*} \
        --set critic.learning_rate=1e-3 --set credit.length_adaptive_alpha=${pair#*,}
done
# A critic of the starting policy, trained alone: learning rate, epochs an iteration.
for pair in 1e-3,2 3e-3,2 1e-4,8 3e-4,8 1e-3,8; do
    try configs/demo_ppo critic_alone_$pair --set num_iterations=30 --set critic.warmup_iterations=30 \
        --set critic.learning_rate=${pair%,*} --set critic.num_epochs=${pair#*,} \
        --set critic.loss.clip=null
done
