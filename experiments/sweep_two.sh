#!/bin/sh
# sweep_two.sh SWEEP.jsonnet RUNS_DIR: the runs of a sweep on two cores, one a core, from the
# repository's root in the project's environment. What is finished is not repeated; status 1 where a
# run failed.
sweep=$1 runs=$2
last=$(vineppo sweep "$sweep" --runs-dir "$runs" --list | tail -n 1 | awk '{ print $1 }')
[ -n "$last" ] || exit 1
one_core() {
    status=0
    for i in $(seq "$1" 2 "$last"); do
        OMP_NUM_THREADS=1 taskset -c "$1" vineppo sweep "$sweep" --runs-dir "$runs" --index "$i" || status=1
    done
    return $status
}
one_core 0 &
one_core 1
status=$?
wait $! && exit $status
exit 1
