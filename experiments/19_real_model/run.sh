#!/bin/sh
# run.sh MODEL_DIR GSM8K_DIR: a model in HF format, and train.jsonl and test.jsonl. From the repository's root, in
# the project's environment, two cores. What is there is kept.
set -e
here=experiments/19_real_model
run=${RUNS:-runs}/19_real_model
[ -d $run/final ] || vineppo train $here/values.jsonnet --run-dir $run --set "model.path=$1" \
    --set "task.train_path=$2/train.jsonl" --set "task.test_path=$2/test.jsonl"
python -m analysis ground-truth $run --checkpoints 0 --num-states 64 --num-samples 48 --num-draws 9
python -m analysis value-accuracy $run --out $here
rm -f $here/summary.json
cp $run/metrics.jsonl $here
