#!/bin/sh
# run.sh QWEN SMOLLM2 GSM8K SVAMP LARGER MATH, as 19_real_model/common.sh says, after 19_real_model. Two cores; what is there is kept.
here=experiments/19_learning
. experiments/19_real_model/common.sh
python $here/svamp.py "$4" $models
[ -d $models/sft_svamp/final ] || vineppo sft $here/sft.jsonnet --run-dir $models/sft_svamp
vineppo sweep $here/learning.jsonnet --runs-dir runs/19_learning
python $here/learning.py runs/19_learning
first_layers $models/smollm2 15 $models/smollm2_half
for kind in outcome process; do
    [ -d $models/$kind/final ] || vineppo reward-model $here/$kind.jsonnet --run-dir $models/$kind
done
vineppo sweep $here/pieces.jsonnet --runs-dir runs/19_pieces
python $here/pieces.py runs/19_pieces $models
