#!/bin/sh
# From the repository's root, in the project's environment; one core, half an hour. What is there is kept.
set -e
here=experiments/13_gradient_noise
runs=${RUNS:-runs/13_gradient_noise}
export OMP_NUM_THREADS=1
run=$runs/credit_short_noise_seed1
[ -d $run/final ] || vineppo train $here/noise.jsonnet --run-dir $run
python -m analysis gradient-variance $run --checkpoints 15,30,45 --num-problems 64 --sample-values 9 \
    --estimators rloo,martingale_posterior,vine_posterior,vine_oracle,vine_1,vine_3,vine_9,grpo,reinforce_plus_plus \
    --out $here
