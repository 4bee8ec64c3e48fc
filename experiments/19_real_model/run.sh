#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K: Qwen2.5-Coder-0.5B-Instruct and SmolLM2-135M-Instruct in HF format, and a folder with
# train.jsonl and test.jsonl. From the repository's root, in the project's environment; two cores. What is there is
# kept.
set -e
here=experiments/19_real_model
models=runs/19_real_model_models
mkdir -p $models
ln -sfn "$1" $models/qwen
ln -sfn "$2" $models/smollm2
ln -sfn "$3" $models/gsm8k
# Problems of one or two calculations.
for part in train test; do
    awk '{ n = gsub(/<</, "<<"); if (n == 1 || n == 2) print }' $models/gsm8k/$part.jsonl > $models/gsm8k_short_$part.jsonl
done
run=runs/19_real_model
[ -d $run/final ] || vineppo train $here/values.jsonnet --run-dir $run
python -m analysis ground-truth $run --checkpoints 0 --num-states 96 --num-samples 32 --num-draws 9
python -m analysis value-accuracy $run --out $here
cp $run/metrics.jsonl $here/values.jsonl
for kind in outcome process; do
    [ -d $models/$kind/final ] || vineppo reward-model $here/$kind.jsonnet --run-dir $models/$kind
done
vineppo sweep $here/pieces.jsonnet --runs-dir runs/19_pieces
python $here/pieces.py runs/19_pieces
rm -f $here/summary.json
