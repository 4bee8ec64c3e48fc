#!/bin/sh
# From the repository's root, in the project's environment; two cores, half an hour. What is there is kept.
set -e
here=experiments/13_gradient_noise
runs=${RUNS:-runs/13_gradient_noise}
export OMP_NUM_THREADS=1
run=$runs/credit_short_noise_seed1
[ -d $run/final ] || vineppo train $here/noise.jsonnet --run-dir $run
values() {
    python -m analysis ground-truth $run --checkpoints 15,30,45 --num-states 128 --num-draws 9
    python -m analysis value-accuracy $run --out $here/values
    python -m analysis action-ranking $run --checkpoints 30 --num-states 48 --num-draws 9 --out $here/ranking
}
values &
python -m analysis gradient-variance $run --checkpoints 15,30,45 --num-problems 64 --sample-values 9 \
    --estimators rloo,martingale_posterior,vine_posterior,vine_oracle,vine_1,vine_2,vine_3,vine_5,vine_9,gae,grpo,reinforce_plus_plus \
    --out $here
wait $!
