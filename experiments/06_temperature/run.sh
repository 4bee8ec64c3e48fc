#!/bin/sh
# From the repository's root, in the project's environment; two cores. What is there is kept.
set -e
runs=${RUNS:-runs/06_temperature}
experiments/sweep_two.sh configs/sweeps/temperature.jsonnet $runs
python -m analysis temperature $runs/* --out experiments/06_temperature
