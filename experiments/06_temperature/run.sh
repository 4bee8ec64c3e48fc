#!/bin/sh
# From the repository's root, in the project's environment; two cores. What is there is kept.
set -e
runs=${RUNS:-runs/06_temperature}
experiments/sweep_two.sh experiments/06_temperature/runs.jsonnet $runs
python -m analysis experiments/06_temperature/temperature.py $runs/* --out experiments/06_temperature
# On the task that can show credit.
hot=${RUNS_CREDIT:-runs/06_credit}
experiments/sweep_two.sh experiments/06_temperature/credit_short/runs.jsonnet $hot
for t in 1.3 1.6; do
    out=experiments/06_temperature/credit_short/t$t
    python -m analysis compare $hot/*_t${t}_seed* --baseline "RLOO, T = $t" --out $out
done
here=experiments/06_temperature/credit_short
python -m analysis compare $here/t1.6 --baseline "PPO, T = 1.6" --out $hot/versus
cp $hot/versus/compare.csv $here/versus_ppo_1.6.csv
