#!/bin/sh
# From the repository's root, in the project's environment, two cores; after 03, whose runs with K = 9
# it takes. What is finished is not repeated.
set -e
here=experiments/08_continuations
runs=${RUNS:-runs}
experiments/sweep_two.sh $here/runs.jsonnet $runs/08_continuations
python -m analysis learning-curves $runs/03_value_accuracy/long_vineppo_k9_seed* \
    $runs/08_continuations/long_vineppo_k1_seed* $runs/08_continuations/long_vineppo_k3_seed* \
    $runs/08_continuations/long_vineppo_k27_seed* --out $here
python experiments/equal_cost_of.py $here long_vineppo_k9 long_vineppo_k1 long_vineppo_k3
# On credit_short, after 11 and 12.
one=$(echo $runs/08_continuations/credit_short_vineppo_k1_seed*)
python -m analysis compare $one $runs/11_credit/credit_short_vineppo_k[39]_seed* $runs/11_credit/credit_short_oracle_seed* \
    $runs/12_causes/credit_short_group_mean_seed* --baseline "K = 0" --out $here/credit_short
python -m analysis learning-curves $one --out $runs/08_curves
cp $runs/08_curves/learning_curves.csv $here/credit_short
versus() {  # K TABLE OPTIONS...: the same, less K continuations
    k=$1 table=$2
    shift 2
    python -m analysis compare $here/credit_short --baseline "VinePPO, K = $k" "$@" --out $runs/08_$table
    cp $runs/08_$table/compare.csv $here/$table.csv
}
versus 1 versus_k1
versus 3 versus_k3
versus 1 versus_k1_tokens --at tokens --without "K = 0" --without "lagging count of skills"
