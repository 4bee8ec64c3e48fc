#!/bin/sh
# run.sh OUT [--set dotted.key=value …]: on a machine with eight cores or more and a GPU of 80 GB, from the repository's root,
# in the project's environment: what an update of the published size (rho_shape.py) takes;
# an iteration of that size and one of GRPO, with four engines of vLLM and with one, and with the transformers engine, which reads
# a prefix once for its rows ("shared of 1536"; settings of vLLM's engine do not reach it). Then, of a real instruction-tuned MODEL
# (a directory), what the values' phase of one engine reaches of a saturated call, and as many iterations of VinePPO on GSM8K
# (a directory with train.jsonl and test.jsonl) as SECONDS_REAL allow. Tables and runs go to the new folder OUT.
# ENGINES: pairs "number,sequences of each"; SHARED: sequences of the transformers engine; SHAPE, UPDATE, VALUES, REAL: further
# options of rho_shape.py, update.py, values_throughput.py and the run on GSM8K.
set -e
here=experiments/09_gpu
out=${1:?run.sh OUT}
[ -z "$MODEL" ] || : "${GSM8K:?a directory with train.jsonl and test.jsonl}"
shift
mkdir "$out"
ENGINES=${ENGINES:-4,768 1,1024}
python $here/rho_shape.py $SHAPE
PYTHONPATH=. python $here/update.py "$out/update.csv" $UPDATE
for engines in $ENGINES; do
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
[ -n "$MODEL" ] || exit 0
python -m benchmarks.values_throughput --model "$MODEL" --out "$out/values_throughput.json" $VALUES
first=${ENGINES%% *}
timeout -s INT -k 60 "${SECONDS_REAL:-600}" python $here/timeline.py "$out" "${first%,*} of ${first#*,}" train configs/gsm8k_qwen2.5_0.5b_vineppo.jsonnet \
    --run-dir "$out/gsm8k" --set model.path="$MODEL" --set task.train_path="$GSM8K/train.jsonl" --set task.test_path="$GSM8K/test.jsonl" \
    --set engine.kind=vllm_processes --set engine.num_processes=${first%,*} --set engine.max_num_seqs=${first#*,} --set task.num_test_problems=256 \
    --set evaluation.every=5 --set evaluation.num_samples=1 --set logging.wandb_project=null "$@" $REAL || case $? in 124 | 137) ;; *) exit 1 ;; esac
