#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH, as 19_real_model/common.sh says, after 19_real_model. Two cores; what is there is kept.
here=experiments/19_noise
. experiments/19_real_model/common.sh
first_layers $models/sft_gsm8k/final/policy 12 $models/sft_gsm8k_half
run=runs/19_noise
[ -d $run/final ] || vineppo train $here/noise.jsonnet --run-dir $run
python -m analysis gradient-variance $run --checkpoints 4 --problems 48 --continuations 9 --out $run/out \
    --estimators rloo,vine_1,vine_3,vine_9,gae
[ -d $run/cost/final ] || vineppo train $here/cost.jsonnet --run-dir $run/cost
