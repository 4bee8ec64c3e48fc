#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH, as 19_real_model/common.sh says, after 19_real_model. Two cores; what is there is kept.
here=experiments/19_noise
. experiments/19_real_model/common.sh
sft=$models/sft_gsm8k
# Of the first 160 problems 48 that it solves once to three times of four.
engine='engine={"kind":"vllm","dtype":"bfloat16","max_model_len":384,"max_num_seqs":256,"block_size":32,"cpu_kv_cache_gib":2,"enforce_eager":true}'
[ -f $models/gsm8k_noise.jsonl ] || {
    vineppo evaluate $sft --set evaluation.num_samples=4 --set task.num_test_problems=160 --set "$engine"
    found=$(ls "$sft"/evaluations/*num_test_problems=160*/iter_000015.json)
    head -n 160 $models/gsm8k_lines_test.jsonl > $models/gsm8k_noise_160.jsonl
    python experiments/19_real_model/undecided.py "$found" $models/gsm8k_noise_160.jsonl | head -n 48 > $models/gsm8k_noise.jsonl
}
run=runs/19_noise
[ -d $run/final ] || vineppo train $here/noise.jsonnet --run-dir $run
python -m analysis gradient-variance $run --checkpoints 0 --problems 48 --continuations 9 --out $run/out \
    --estimators rloo,vine_1,vine_3,vine_9
cp $run/out/gradient_variance.csv $here
[ -f $here/claims.csv ] || python $here/claims.py $run $models/qwen $here/claims.csv
python experiments/13_gradient_noise/frontier.py
