#!/bin/sh
# From the repository's root, in the project's environment; two cores. What is finished is not repeated.
set -e
here=experiments/20_turns
runs=${RUNS:-runs/20_turns}
experiments/sweep_two.sh $here/runs.jsonnet $runs
python -m analysis learning-curves $runs/drill_*_seed* --out $runs/curves
cp $runs/curves/learning_curves.csv $here
python -m analysis compare $runs/drill_*_seed* --baseline "the group's mean alone" --out $here/compare
python -m analysis compare $here/compare --baseline "the group's mean alone" --at tokens --out $here/equal_tokens
