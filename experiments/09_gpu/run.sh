#!/bin/sh
# run.sh OUT [--set dotted.key=value …]: on a machine with eight cores or more and a GPU of 80 GB, from the repository's root,
# in the project's environment: what an update of the published size (rho_shape.py) spends its time on, by micro-batches of ROWS;
# an iteration of that size and one of GRPO, with four engines and with one; then, of a real MODEL (a directory), what the values'
# phase of one engine reaches of a saturated call. Tables and runs go to the new folder OUT.
# ENGINES: pairs "number,sequences of each"; SHAPE and TRAIN_STEP: further options of rho_shape.py and benchmarks.train_step.
set -e
here=experiments/09_gpu
sizes="--set engine.max_model_len=2048 --set sampling.max_tokens=512 --set optimization.micro_batch_size"
out=${1:?run.sh OUT}
shift
mkdir "$out"
python $here/rho_shape.py $SHAPE
for rows in ${ROWS:-32 8}; do
    python -m benchmarks.train_step --model runs/09_rho/model $TRAIN_STEP $sizes=$rows --out "$out/train_step_$rows.json"
done
for engines in ${ENGINES:-4,768 1,1024}; do
    count=${engines%,*} places=${engines#*,}
    for config in rho_shape rho_shape_grpo; do
        python $here/timeline.py "$out" "$count of $places" train $here/$config.jsonnet --run-dir "$out/$config.$engines" \
            --set engine.num_processes=$count --set engine.max_num_seqs=$places "$@"
    done
done
[ -z "$MODEL" ] || python -m benchmarks.values_throughput --model "$MODEL" --out "$out/values_throughput.json"
