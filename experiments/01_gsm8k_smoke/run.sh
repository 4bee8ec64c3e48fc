#!/usr/bin/env bash
# The three runs of this experiment, one after another.
#     run.sh SMOLLM2_DIR QWEN_DIR GSM8K_DIR
# SMOLLM2_DIR and QWEN_DIR hold models in HF format, GSM8K_DIR holds train.jsonl and test.jsonl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
smollm2=$1 qwen=$2 gsm8k=$3
here=experiments/01_gsm8k_smoke
vineppo=.venv/bin/vineppo

mkdir -p runs
head -640 "$gsm8k/train.jsonl" >runs/gsm8k_train_640.jsonl
test_set=(--set "task.test_path=$gsm8k/test.jsonl")
train_set=(--set "task.train_path=$gsm8k/train.jsonl")

$vineppo sft $here/sft.jsonnet --run-dir runs/gsm8k_smoke_sft "${test_set[@]}" \
    --set "model.path=$smollm2" --set task.train_path=runs/gsm8k_train_640.jsonl
$vineppo train $here/vineppo_smollm2.jsonnet --run-dir runs/gsm8k_smoke_smollm2 \
    "${train_set[@]}" "${test_set[@]}" --set model.path=runs/gsm8k_smoke_sft/final/policy
$vineppo train $here/vineppo_qwen.jsonnet --run-dir runs/gsm8k_smoke_qwen \
    "${train_set[@]}" "${test_set[@]}" --set "model.path=$qwen"
