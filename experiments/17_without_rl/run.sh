#!/bin/sh
# After 11, whose table it takes, and sweep.sh; from the repository's root, in the project's
# environment, two cores. A run takes one to three minutes of one core, and a finished one is not
# repeated.
set -e
here=experiments/17_without_rl
runs=${RUNS:-runs/17_without_rl}
experiments/sweep_two.sh $here/runs.jsonnet $runs
alone() {  # CORE SEED: the seed's self-training on one core
    for method in restem dpo; do
        run=$runs/credit_short_${method}_seed$2
        # Without validation, which samples three times as much as an iteration: the last epoch stays.
        [ -d $run/final ] || OMP_NUM_THREADS=1 taskset -c $1 \
            vineppo sft configs/sft_credit_short_$method.jsonnet --run-dir $run \
            --set name=credit_short_$method --set seed=$2 --set self_training.num_validation=0 \
            --set optimization.learning_rate=$([ $method = restem ] && echo 1e-4 || echo 5e-5) \
            --set self_training.restart=false --set checkpoint.every=0 --set logging.wandb_project=null
    done
    run=$runs/credit_sheet_restem_seed$2  # with it
    [ -d $run/final ] || OMP_NUM_THREADS=1 taskset -c $1 vineppo sft $here/restem_sheet.jsonnet --run-dir $run \
        --set seed=$2 --set optimization.learning_rate=2e-4 --set checkpoint.every=0 --set logging.wandb_project=null
}
(for seed in 1 3 5 7; do alone 0 $seed; done) &
for seed in 2 4 6 8; do alone 1 $seed; done
wait $!
# SPO-tree came to fewer tokens; the others have two seeds.
python -m analysis compare experiments/11_credit/compare $runs/credit_short_* --without SPO-tree --baseline GRPO \
    --at "equal tokens" --out $here/compare
python -m analysis compare experiments/16_by_the_clock/compare $runs/credit_sheet_* --without "exact values" \
    --without REINFORCE++ --baseline "martingale, answer in view" --at "equal tokens" --out $here/compare_sheet
python -m analysis diversity $runs/credit_short_*_seed[123] --out $here/diversity
rm -f $here/*/summary.json
