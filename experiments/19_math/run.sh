#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH, as 19_real_model/common.sh says, after 19_real_model. Two cores; what is there is kept.
here=experiments/19_math
. experiments/19_real_model/common.sh
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
in_doubt math $models/math_test.jsonl $here/math_sft.jsonnet $models/math_undecided.jsonl
math=runs/19_math
[ -d $math/final ] || vineppo train $here/math_values.jsonnet --run-dir $math
python -m analysis ground-truth $math --checkpoints 0 --states 100 --samples 64 --draws 9
accuracy $math math
python experiments/19_real_model/gsm8k_lines.py $here/math/value_accuracy_states.parquet $here/math/steps.csv
[ -f $math/costs.csv ] || python $here/value_costs.py $math $math/costs.csv
cp $math/costs.csv $here/math
python experiments/19_real_model/scatter.py
