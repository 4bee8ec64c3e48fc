#!/bin/sh
# run.sh OUT [--set dotted.key=value …]: on a machine with eight cores or more and a GPU of 80 GB, from the repository's root,
# in the project's environment: what an update of the published size (rho_shape.py) takes;
# an iteration of that size and one of GRPO, with four engines and with one; then, of a real MODEL (a directory), what the values'
# phase of one engine reaches of a saturated call. Tables and runs go to the new folder OUT.
# ENGINES: pairs "number,sequences of each"; SHAPE and UPDATE: further options of rho_shape.py and update.py.
set -e
here=experiments/09_gpu
out=${1:?run.sh OUT}
shift
mkdir "$out"
python $here/rho_shape.py $SHAPE
PYTHONPATH=. python $here/update.py "$out/update.csv" $UPDATE
for engines in ${ENGINES:-4,768 1,1024}; do
    count=${engines%,*} places=${engines#*,}
    for config in rho_shape rho_shape_grpo; do
        python $here/timeline.py "$out" "$count of $places" train $here/$config.jsonnet --run-dir "$out/$config.$engines" \
            --set engine.num_processes=$count --set engine.max_num_seqs=$places "$@"
    done
done
[ -z "$MODEL" ] || python -m benchmarks.values_throughput --model "$MODEL" --out "$out/values_throughput.json"
