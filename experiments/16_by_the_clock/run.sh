#!/bin/sh
# From the repository's root, in the project's environment; two cores, an hour and a half. What is there
# is kept.
set -e
here=experiments/16_by_the_clock
runs=${RUNS:-runs/16_by_the_clock}
python $here/simulate.py
experiments/sweep_two.sh $here/sweep.jsonnet ${runs}_sweep
python experiments/11_credit/sweep.py ${runs}_sweep $here/sweep.csv
experiments/sweep_two.sh $here/runs.jsonnet $runs
for setting in short sheet; do
    out=$here/$setting
    python -m analysis learning-curves $runs/credit_${setting}_* --out $out/curves
    python -m analysis compare $runs/credit_${setting}_* --baseline RLOO --out $out/compare
    python -m analysis compare $out/compare --baseline RLOO --at "equal seconds" --out $out/equal_seconds
    # Every estimator's gradients on the same rollouts, at three points of training.
    [ -d $runs/noise_$setting/final ] || OMP_NUM_THREADS=1 vineppo train $here/noise_$setting.jsonnet \
        --run-dir $runs/noise_$setting
    OMP_NUM_THREADS=1 python -m analysis gradient-variance $runs/noise_$setting --checkpoints 0,15,30 \
        --num-problems 64 --sample-values 9 --out $out/noise --estimators \
        rloo,martingale_privileged,martingale_posterior,vine_oracle,vine_1,vine_3,vine_9,gae
done
