#!/bin/sh
# run.sh OUT [--set dotted.key=value …]: on a machine with eight cores or more and a GPU of 80 GB, from the repository's root,
# in the project's environment: what an update of the published size (rho_shape.py) takes;
# an iteration of that size and one of GRPO, with four engines of vLLM and with one, and with the transformers engine, which reads
# a prefix once for its rows ("shared of 1536"; settings of vLLM's engine do not reach it); then, of a real MODEL (a directory), what the values'
# phase of one engine reaches of a saturated call. Tables and runs go to the new folder OUT.
# ENGINES: pairs "number,sequences of each"; SHARED: sequences of the transformers engine; SHAPE and UPDATE: further options of rho_shape.py and update.py.
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
places=${SHARED:-1536}
for config in rho_shape rho_shape_grpo; do
    python $here/timeline.py "$out" "shared of $places" train $here/$config.jsonnet --run-dir "$out/$config.shared" "$@" --set \
        "engine={\"kind\":\"transformers\",\"dtype\":\"bfloat16\",\"max_model_len\":2048,\"max_num_seqs\":$places,\"max_num_batched_tokens\":8192}"
done
[ -z "$MODEL" ] || python -m benchmarks.values_throughput --model "$MODEL" --out "$out/values_throughput.json"
