#!/bin/sh
# run.sh [--set dotted.key=value …]: on a machine with eight cores or more and a GPU of 80 GB, from the repository's root, in
# the project's environment: an iteration of the published size (rho_shape.py) and one of GRPO, then, of a real MODEL (a directory), what
# the values' phase reaches of a saturated call. ENGINES: pairs "number,sequences of each"; SHAPE: rho_shape.py's options; OUT: where
# tables go.
set -e
here=experiments/09_gpu
out=${OUT:-$here}
[ -f runs/09_rho/test.jsonl ] || python $here/rho_shape.py $SHAPE
for engines in ${ENGINES:-4,768 1,1024}; do
    count=${engines%,*} places=${engines#*,}
    for config in rho_shape rho_shape_grpo; do
        python $here/timeline.py "$out" "$count of $places" train $here/$config.jsonnet --run-dir runs/09_${config}_$count \
            --set engine.num_processes=$count --set engine.max_num_seqs=$places "$@"
    done
done
[ -z "$MODEL" ] || python -m benchmarks.values_throughput --model "$MODEL" --out "$out/values_throughput.json"
