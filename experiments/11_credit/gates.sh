#!/bin/sh
# What credit_short must show before methods are compared on it; half an hour of one core.
set -e
export OMP_NUM_THREADS=1
runs=${RUNS:-runs/11_credit_gates}
out=experiments/11_credit/gates
train() {  # NAME CONFIG [--set …]: the run $runs/NAME without evaluations
    name=$1 config=$2
    shift 2
    [ -d $runs/$name/final ] || vineppo train $config.jsonnet --run-dir $runs/$name \
        --set evaluation.every=0 --set logging.wandb_project=null "$@"
}
train start configs/recipes/oracle --set num_iterations=1 --set rollouts.num_prompts=64
train start_long experiments/11_credit/credit_long_oracle --set num_iterations=1 --set rollouts.num_prompts=64
python experiments/11_credit/first_mistakes.py $runs/start $runs/start_long
# An iteration's rollouts and the count of skills; 9 continuations of each of their states; 64 problems.
train noise configs/recipes/oracle --set num_iterations=1
python -m analysis gradient-variance $runs/noise --checkpoints 0 --problems 64 --continuations 9 --out $out
# The long chains (15 hard facts), the count of skills and RLOO alone.
train noise_long experiments/11_credit/credit_long_oracle --set num_iterations=1
python -m analysis gradient-variance $runs/noise_long --checkpoints 0 --problems 64 --continuations 1 \
    --estimators rloo,vine_oracle --out $out/long
# Learned values after 2 and 12 iterations of 64 x 8 rollouts of a policy that stands still, against
# 256 continuations of 128 states.
critic=$runs/credit_short_critic_seed1
[ -d $critic/final ] || vineppo train experiments/11_credit/critic.jsonnet --run-dir $critic
python -m analysis ground-truth $critic --checkpoints 2,12 --states 128 --draws 9
python -m analysis value-accuracy $critic --out $out/critic
# The share of hard steps as a knob (of problems with 4 there are few).
for hard in 1 2 3 4; do
    train hard_$hard configs/recipes/oracle --set num_iterations=1 --set task.num_hard_steps=$hard \
        --set task.num_train_problems=8000
    python -m analysis gradient-variance $runs/hard_$hard --checkpoints 0 --problems 64 \
        --continuations 1 --estimators rloo,vine_oracle --out $runs/hard_$hard/gradients
done
python experiments/11_credit/decisive.py $runs/hard_1 $runs/hard_2 $runs/hard_3 $runs/hard_4
rm -rf $out/gradients $out/*/gradients $out/*.png $out/long/*.png
