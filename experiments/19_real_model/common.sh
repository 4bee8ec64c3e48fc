# Sourced by the run.sh of the four folders: common.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH:
# Qwen2.5-Coder-0.5B-Instruct and SmolLM2-135M-Instruct in HF format, a folder with train.jsonl and
# test.jsonl, SVAMP.json (github.com/arkilpatel/SVAMP), Qwen2.5-Coder-1.5B-Instruct, and a folder with
# MATH's train.jsonl (PRM800K's split). From the repository's root, in the project's environment.
set -e
models=runs/19_real_model_models
mkdir -p $models
ln -sfn "$1" $models/qwen
ln -sfn "$2" $models/smollm2
ln -sfn "$3" $models/gsm8k
ln -sfn "$5" $models/qwen_larger
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
in_doubt() { # NAME PROBLEMS SFT_CONFIG OUT: of a policy that is fine-tuned first, those that it solves once to three times of four
    sft=$models/sft_$1
    num=$(wc -l < $2)
    [ -d $sft/final ] || vineppo sft $3 --run-dir $sft
    found="$sft/evaluations/evaluation.num_samples=4,task.num_test_problems=$num/iter_000015.json"
    [ -f "$found" ] || vineppo evaluate $sft --set evaluation.num_samples=4 --set task.num_test_problems=$num
    python experiments/19_real_model/undecided.py "$found" $2 > $4
}
accuracy() { # RUN FOLDER
    python -m analysis value-accuracy $1 --out $1/out
    mkdir -p $here/$2
    cp $1/out/value_accuracy.csv $1/out/value_accuracy_states.parquet $here/$2
}
