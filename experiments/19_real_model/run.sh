#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH, as 19_real_model/common.sh says. Two cores; what is there is kept.
here=experiments/19_real_model
. experiments/19_real_model/common.sh
# Problems of one or two calculations.
for part in train test; do
    awk '{ n = gsub(/<</, "<<"); if (n == 1 || n == 2) print }' $models/gsm8k/$part.jsonl > $models/gsm8k_short_$part.jsonl
done
run=runs/19_real_model
[ -d $run/final ] || vineppo train $here/values.jsonnet --run-dir $run
python -m analysis ground-truth $run --checkpoints 0 --states 96 --samples 32 --draws 9
python -m analysis value-accuracy $run --out $here
tail -n 1 $run/metrics.jsonl > $here/values.json
# GSM8K, a line a step: 480 solutions to fine-tune on, the next 640 problems to learn values of.
awk '{ n = gsub(/<</, "<<"); if (n == 2 || n == 3) print }' $models/gsm8k/train.jsonl > $models/gsm8k_lines.jsonl
head -n 480 $models/gsm8k_lines.jsonl > $models/gsm8k_lines_train.jsonl
sed -n 481,1120p $models/gsm8k_lines.jsonl > $models/gsm8k_lines_test.jsonl
in_doubt gsm8k $models/gsm8k_lines_test.jsonl $here/gsm8k_sft.jsonnet $models/gsm8k_undecided.jsonl
lines=runs/19_gsm8k
[ -d $lines/final ] || vineppo train $here/gsm8k_values.jsonnet --run-dir $lines
# States of the third iteration, by the policy that sampled them; it stands still.
python -m analysis ground-truth $lines --checkpoints 2 --states 150 --samples 256 --draws 9
first_layers $sft/final/policy 12 $models/sft_gsm8k_half
half=$models/sft_gsm8k_half
while read -r what; do
    python $here/gsm8k_critics.py $lines $what $lines/critics.csv < /dev/null
done <<END
1 2 $half 1e-5 1e-3 3
1 2 $half 3e-5 1e-3 3
1 2 $half 1e-5 normal 3
1 2 $half 1e-5 1e-4 3
1,2,4,5 3 $half 1e-5 1e-4 1
1 3 $sft/final/policy 0 0 0
1 3 $models/qwen 0 0 0
END
accuracy $lines gsm8k
cp $lines/critics.csv $here/gsm8k
python $here/gsm8k_lines.py $here/gsm8k/value_accuracy_states.parquet $here/gsm8k/lines.csv
python -m analysis action-ranking $lines --checkpoints 4 --states 40 --alternatives 4 --samples 96 \
    --draws 9 --out $lines/out_ranking
cp -r $lines/out_ranking/action_ranking.csv $lines/out_ranking/action_ranking $here/gsm8k
python $here/scatter.py
