#!/bin/sh
# Six methods, five seeds, two settings; from the repository's root, in the project's environment.
# A run takes 2 to 14 minutes of one core; a finished one is not repeated.
set -e
runs=${RUNS:-runs/02_baselines}
for setting in demo long; do
    case $setting in
        demo) folder=configs extra="--set evaluation.every=4" ;;
        long) folder=experiments/02_baselines extra="--set num_iterations=12 --set evaluation.every=3" ;;
    esac
    for seed in 1 2 3 4 5; do
        for method in vineppo ppo modern_ppo grpo rloo reinforce; do
            k=""
            [ $method = vineppo ] && k="--set credit.num_continuations=9"
            OMP_NUM_THREADS=1 vineppo train $folder/${setting}_$method.jsonnet \
                --run-dir $runs/${setting}_${method}_seed$seed --set seed=$seed \
                --set checkpoint.every=0 --set logging.wandb_project=null $extra $k
        done
    done
    python -m analysis learning-curves $runs/${setting}_vineppo_seed* $runs/${setting}_ppo_seed* \
        $runs/${setting}_modern_ppo_seed* $runs/${setting}_grpo_seed* $runs/${setting}_rloo_seed* \
        $runs/${setting}_reinforce_seed* --out experiments/02_baselines/$setting
done
