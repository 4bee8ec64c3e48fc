#!/bin/sh
# From the repository's root, in the project's environment, two cores; after 03, whose runs it takes.
# Every run's table is written here, what is there is kept; the last line draws them all.
set -e
here=experiments/04_action_ranking
runs=${RUNS:-runs/03_value_accuracy}
rankings() {
    for run in "$@"; do
        OMP_NUM_THREADS=1 taskset -c "$core" python -m analysis action-ranking "$run" \
            --checkpoints 9 --states 48 --out $here
    done
}
core=0 && rankings $runs/long_ppo_seed* &
core=1 && rankings $runs/long_modern_ppo_seed*
wait $!
python -m analysis action-ranking $here --out $here
