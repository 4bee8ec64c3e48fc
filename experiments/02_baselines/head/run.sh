#!/bin/sh
# From the repository's root, in the project's environment; two cores, half an hour. What is finished is not repeated.
set -e
here=experiments/02_baselines/head
runs=${RUNS:-runs/02_head}
experiments/sweep_two.sh $here/runs.jsonnet $runs
for setting in demo long; do
    python -m analysis learning-curves $runs/${setting}_*_seed* --out $runs/curves/$setting
    python -m analysis compare $runs/${setting}_*_seed* --baseline ${setting}_ppo_normal_head --out $runs/compared/$setting
    cp $runs/curves/$setting/learning_curves.csv $runs/compared/$setting/evaluations.parquet \
        $runs/compared/$setting/runs.json $here/$setting
done
python $here/differences.py
