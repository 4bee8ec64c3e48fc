#!/bin/sh
# What the credit settings must show before methods are compared on them; ten minutes of one core.
set -e
runs=${RUNS:-runs/11_credit_gates}
out=experiments/11_credit/gates
for setting in short long; do
    [ -d $runs/start_$setting/final ] || OMP_NUM_THREADS=1 vineppo train configs/credit_${setting}_rloo.jsonnet \
        --run-dir $runs/start_$setting --set num_iterations=1 --set rollouts.num_prompts=64 \
        --set evaluation.every=0 --set logging.wandb_project=null
done
python experiments/11_credit/first_mistakes.py $runs/start_short $runs/start_long
[ -d $runs/gv_short/final ] || OMP_NUM_THREADS=1 vineppo train configs/credit_short_oracle.jsonnet \
    --run-dir $runs/gv_short --set num_iterations=1 --set evaluation.every=0 --set logging.wandb_project=null
python -m analysis gradient-variance $runs/gv_short --checkpoints 0 --num-problems 32 --sample-values 27 --out $out
