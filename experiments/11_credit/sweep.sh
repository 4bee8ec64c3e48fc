#!/bin/sh
# Learning rates on credit_short; from the repository's root, in the project's environment, 20 minutes
# of two cores. A finished run is not repeated.
runs=${RUNS:-runs/11_credit_sweep}
experiments/sweep_two.sh experiments/11_credit/sweep.jsonnet $runs
python experiments/11_credit/sweep.py $runs
