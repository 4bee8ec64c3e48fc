#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH, as 19_real_model/common.sh says, after 19_real_model. Two cores; what is there is kept.
here=experiments/19_noise
. experiments/19_real_model/common.sh
sft=$models/sft_gsm8k
# Of 480 problems those that it solves once to three times of four: 48 whose gradients are measured, 144 that values learn from.
engine='engine={"kind":"vllm","dtype":"bfloat16","max_model_len":384,"max_num_seqs":256,"block_size":32,"cpu_kv_cache_gib":2,"enforce_eager":true}'
[ -f $models/gsm8k_claims.jsonl ] || {
    vineppo evaluate $sft --set evaluation.num_samples=4 --set evaluation.temperature=0.6 --set evaluation.top_p=1 \
        --set task.num_test_problems=480 --set "$engine"
    found=$(ls "$sft"/evaluations/*num_test_problems=480*/iter_000015.json)
    head -n 480 $models/gsm8k_lines_test.jsonl > $models/gsm8k_480.jsonl
    python experiments/19_real_model/undecided.py "$found" $models/gsm8k_480.jsonl > $models/gsm8k_in_doubt.jsonl
    head -n 48 $models/gsm8k_in_doubt.jsonl > $models/gsm8k_noise.jsonl
    sed 1,48d $models/gsm8k_in_doubt.jsonl | head -n 144 > $models/gsm8k_claims.jsonl
}
first_layers $sft/final/policy 12 $models/sft_gsm8k_half
[ -d runs/19_claims/final ] || vineppo train $here/claims.jsonnet --run-dir runs/19_claims
run=runs/19_noise
[ -d $run/final ] || vineppo train $here/noise.jsonnet --run-dir $run
# gradient_variance.csv and claims_first.csv are of a first policy, by this script at commit dd3a6939. claims_504.csv has rows of
# claims.csv by it at ce86af32, where the critic learned from 1,008 rewards.
python -m analysis gradient-variance $run --checkpoints 0 --problems 48 --continuations 9 --out $run/out \
    --estimators rloo,gae_tuned
cp $run/out/gradient_variance.csv $here/critic.csv
# Two rates of every kind learn from one iteration, and foretell rewards of other problems. The better one learns from four, and
# foretells a fifth, whose 36 problems are among the 144.
learn() {
    model=$models/sft_gsm8k_half; case $4 in end | prefixes) model=$sft/final/policy ;; esac
    python experiments/19_real_model/gsm8k_critics.py runs/19_claims $1 $2 $model $3 $4 1 runs/19_claims/learned.csv $5
}
for rate in 1e-5 1e-6; do
    for fit in end prefixes; do learn 1 2 $rate $fit; done
done
for rate in 1e-5 3e-5; do
    for head in ${rate%-5}-4 hl_gauss; do learn 1 2 $rate $head; done
done
learned=runs/19_claims/learned
learn 1,2,3,4 5 1e-6 end $learned/end
learn 1,2,3,4 5 1e-6 prefixes $learned/prefixes
learn 1,2,3,4 5 3e-5 3e-4 $learned/critic
learn 1,2,3,4 5 1e-5 hl_gauss $learned/hl_gauss
cp runs/19_claims/learned.csv $here
[ -f runs/19_claims/claims.csv ] || python $here/claims.py $run $models/qwen $learned runs/19_claims/claims.csv
cp runs/19_claims/claims.csv $here
python experiments/13_gradient_noise/frontier.py
python $here/figure.py
