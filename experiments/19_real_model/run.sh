#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH: Qwen2.5-Coder-0.5B-Instruct and SmolLM2-135M-Instruct in HF format,
# a folder with train.jsonl and test.jsonl, SVAMP.json (github.com/arkilpatel/SVAMP), Qwen2.5-Coder-1.5B-Instruct, and a folder with MATH's train.jsonl (PRM800K's split). From the
# repository's root, in the project's environment; two cores. What is there is kept.
set -e
here=experiments/19_real_model
models=runs/19_real_model_models
mkdir -p $models
ln -sfn "$1" $models/qwen
ln -sfn "$2" $models/smollm2
ln -sfn "$3" $models/gsm8k
ln -sfn "$5" $models/qwen_larger
# Problems of one or two calculations.
for part in train test; do
    awk '{ n = gsub(/<</, "<<"); if (n == 1 || n == 2) print }' $models/gsm8k/$part.jsonl > $models/gsm8k_short_$part.jsonl
done
run=runs/19_real_model
[ -d $run/final ] || vineppo train $here/values.jsonnet --run-dir $run
python -m analysis ground-truth $run --checkpoints 0 --states 96 --samples 32 --draws 9
python -m analysis value-accuracy $run --out $here
tail -n 1 $run/metrics.jsonl > $here/values.json
first_layers() { # MODEL NUM OUT
    [ -d "$3" ] || python - "$@" <<'END'
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer

path, num, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
model = AutoModelForCausalLM.from_pretrained(path, dtype="auto")
model.model.layers = model.model.layers[:num]
model.config.num_hidden_layers = num
if getattr(model.config, "layer_types", None):
    model.config.layer_types = model.config.layer_types[:num]
model.save_pretrained(out)
AutoTokenizer.from_pretrained(path).save_pretrained(out)
END
}
first_layers $models/smollm2 15 $models/smollm2_half
in_doubt() { # gsm8k|math PROBLEMS OUT: of a policy that is fine-tuned first, those that it solves once to three times of four
    sft=$models/sft_$1
    num=$(wc -l < $2)
    [ -d $sft/final ] || vineppo sft $here/$1_sft.jsonnet --run-dir $sft
    found="$sft/evaluations/evaluation.num_samples=4,task.num_test_problems=$num/iter_000015.json"
    [ -f "$found" ] || vineppo evaluate $sft --set evaluation.num_samples=4 --set task.num_test_problems=$num
    python $here/undecided.py "$found" $2 > $3
}
accuracy() { # RUN FOLDER
    python -m analysis value-accuracy $1 --out $1/out
    mkdir -p $here/$2
    cp $1/out/value_accuracy.csv $1/out/value_accuracy_states.parquet $here/$2
}
for kind in outcome process; do
    [ -d $models/$kind/final ] || vineppo reward-model $here/$kind.jsonnet --run-dir $models/$kind
done
vineppo sweep $here/pieces.jsonnet --runs-dir runs/19_pieces
python $here/pieces.py runs/19_pieces $models
python $here/svamp.py "$4" $models
[ -d $models/sft_svamp/final ] || vineppo sft $here/sft.jsonnet --run-dir $models/sft_svamp
vineppo sweep $here/learning.jsonnet --runs-dir runs/19_learning
python $here/learning.py runs/19_learning
all="evaluation.num_samples=8,evaluation.temperature=0.6,evaluation.top_p=1"
[ -f "$models/sft_svamp/evaluations/$all/iter_000044.json" ] || vineppo evaluate $models/sft_svamp \
    $(echo $all | sed 's/^/--set /; s/,/ --set /g')
python $here/undecided.py "$models/sft_svamp/evaluations/$all/iter_000044.json" $models/svamp_test.jsonl \
    > $models/svamp_undecided.jsonl
critics=runs/19_critics
[ -d $critics/final ] || vineppo train $here/critics.jsonnet --run-dir $critics
python -m analysis ground-truth $critics --states 150 --samples 64 --draws 9
accuracy $critics critics
python -m analysis action-ranking $critics --states 40 --samples 128 --draws 9 --out $critics/out
cp $critics/out/action_ranking.csv $here/critics
# GSM8K, a line a step: 480 solutions to fine-tune on, the next 640 problems to learn values of.
awk '{ n = gsub(/<</, "<<"); if (n == 2 || n == 3) print }' $models/gsm8k/train.jsonl > $models/gsm8k_lines.jsonl
head -n 480 $models/gsm8k_lines.jsonl > $models/gsm8k_lines_train.jsonl
sed -n 481,1120p $models/gsm8k_lines.jsonl > $models/gsm8k_lines_test.jsonl
in_doubt gsm8k $models/gsm8k_lines_test.jsonl $models/gsm8k_undecided.jsonl
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
# A larger policy, as it comes.
awk '{ n = gsub(/<</, "<<"); if (n >= 3) print }' $models/gsm8k/train.jsonl > $models/gsm8k_longer.jsonl
first_layers $models/qwen 2 $models/qwen_two_layers
larger=runs/19_larger
[ -d $larger/final ] || vineppo train $here/larger.jsonnet --run-dir $larger
python -m analysis ground-truth $larger --checkpoints 0 --states 60 --samples 24 --draws 9
accuracy $larger larger
# MATH.
python - "$6" $models <<'END'
import json, random, sys
from pathlib import Path

source, models = map(Path, sys.argv[1:])
rows = [json.loads(line) for line in (source / "train.jsonl").read_text().splitlines()]
rows = [
    row for row in rows
    if row["level"] in (1, 2) and "[asy]" not in row["problem"] + row["solution"]
    and 120 <= len(row["solution"]) <= 400
]
random.Random(0).shuffle(rows)
for name, part in {"train": rows[:480], "test": rows[480:800]}.items():
    (models / f"math_{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
END
in_doubt math $models/math_test.jsonl $models/math_undecided.jsonl
math=runs/19_math
[ -d $math/final ] || vineppo train $here/math_values.jsonnet --run-dir $math
python -m analysis ground-truth $math --checkpoints 0 --states 100 --samples 64 --draws 9
accuracy $math math
python $here/gsm8k_lines.py $here/math/value_accuracy_states.parquet $here/math/steps.csv
[ -f $math/costs.csv ] || python $here/value_costs.py $math $math/costs.csv
cp $math/costs.csv $here/math
rm -f $here/*.png
