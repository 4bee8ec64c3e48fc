#!/bin/sh
# From the repository's root, in the project's environment; two cores, half an hour. What is finished is not repeated.
set -e
here=experiments/02_baselines/head
runs=${RUNS:-runs/02_head}
experiments/sweep_two.sh $here/runs.jsonnet $runs
for setting in demo long; do
    python -m analysis learning-curves $runs/${setting}_*_seed* --out $runs/curves/$setting
    cp $runs/curves/$setting/learning_curves.csv $here/$setting.csv
done
python $here/differences.py
