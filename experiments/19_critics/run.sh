#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH, as 19_real_model/common.sh says, after 19_learning. Two cores; what is there is kept.
here=experiments/19_critics
. experiments/19_real_model/common.sh
all="evaluation.num_samples=8,evaluation.temperature=0.6,evaluation.top_p=1"
[ -f "$models/sft_svamp/evaluations/$all/iter_000044.json" ] || vineppo evaluate $models/sft_svamp \
    $(echo $all | sed 's/^/--set /; s/,/ --set /g')
python experiments/19_real_model/undecided.py "$models/sft_svamp/evaluations/$all/iter_000044.json" $models/svamp_test.jsonl \
    > $models/svamp_undecided.jsonl
critics=runs/19_critics
[ -d $critics/final ] || vineppo train $here/critics.jsonnet --run-dir $critics
python -m analysis ground-truth $critics --states 150 --samples 64 --draws 9
accuracy $critics .
python -m analysis action-ranking $critics --states 40 --samples 128 --draws 9 --out $critics/out
cp $critics/out/action_ranking.csv $here
python experiments/19_real_model/scatter.py
