#!/bin/sh
# run.sh QWEN GSM8K: Qwen2.5-Coder-0.5B-Instruct in HF format, and a folder with GSM8K's train.jsonl and test.jsonl. From the
# repository's root, in the project's environment; half an hour on two cores. What is there is kept.
set -e
here=experiments/21_example_report
models=runs/21_models
run=runs/21_example
mkdir -p $models
ln -sfn "$1" $models/qwen
# Three problems of two calculations that the model solves sometimes.
awk '{ n = gsub(/<</, "<<"); if (n == 2) print }' "$2/train.jsonl" | sed -n '1p;241p;281p' > $models/gsm8k.jsonl
head -n 2 "$2/test.jsonl" > $models/test.jsonl
[ -d $run/final ] || vineppo train $here/run.jsonnet --run-dir $run
python -m analysis ground-truth $run --checkpoints 0 --states 400 --samples 16 --draws 1
python $here/steps.py $run $here/steps.csv
python -m analysis report $run --out $run/report
cp $run/report/report.html $here/
python experiments/front_page.py
