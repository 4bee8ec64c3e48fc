#!/bin/sh
# On a machine with eight cores or more and a GPU of 80 GB, from the repository's root, in the project's
# environment: iterations of the published size (rho_shape.py), with one engine and with four. ITERATIONS: 1.
set -e
here=experiments/09_gpu
[ -f runs/09_rho/test.jsonl ] || python $here/rho_shape.py
for engines in "1 1024" "4 768"; do
    set -- $engines
    run=runs/09_gpu_$1
    nvidia-smi --query-gpu=utilization.gpu,memory.used,power.draw --format=csv -lms 1000 > $run.gpu.csv &
    smi=$!
    trap 'kill $smi' EXIT
    python $here/timeline.py $run.sampling.csv train $here/rho_shape.jsonnet --run-dir $run \
        --set num_iterations=${ITERATIONS:-1} --set engine.num_processes=$1 --set engine.max_num_seqs=$2
    kill $smi
    trap - EXIT
    cat $run/metrics.jsonl # seconds by phase, tokens, gap, memory
done
