#!/bin/sh
# After 11 and 16, whose tables it takes, and sweep.sh; from the repository's root, in the project's
# environment, two cores, two hours. A run takes one to three minutes of one core, and a finished one
# is not repeated.
set -e
here=experiments/17_without_rl
runs=${RUNS:-runs/17_without_rl}
experiments/sweep_two.sh $here/runs.jsonnet $runs
alone() {  # CORE SEED: the seed's self-training on one core
    train() {  # NAME CONFIG RATE and what else is set
        run=$runs/$1_seed$seed config=$2 rate=$3
        [ -d $run/final ] || OMP_NUM_THREADS=1 taskset -c $core vineppo sft $config --run-dir $run \
            --set name=$1 --set seed=$seed --set optimization.learning_rate=$rate \
            --set self_training.restart=false --set checkpoint.every=0 --set logging.wandb_project=null $4
    }
    core=$1 seed=$2
    # Validation samples three times as much as an iteration; without it the last epoch stays.
    last_epoch="--set self_training.num_validation=0"
    train credit_short_restem configs/recipes/self_training.jsonnet 1e-4 "$last_epoch"
    train credit_short_dpo $here/dpo_short.jsonnet 5e-5 "$last_epoch"
    train credit_short_dpo_steps $here/dpo_steps_short.jsonnet 5e-5 "$last_epoch"
    train credit_sheet_restem $here/restem_sheet.jsonnet 2e-4
    train credit_sheet_restem_last_epoch $here/restem_sheet.jsonnet 2e-4 "$last_epoch"
    train credit_sheet_restem_longer $here/restem_sheet.jsonnet 2e-4 \
        "$last_epoch --set self_training.num_iterations=9 --set evaluation.every=3"
}
(for seed in 1 3 5 7; do alone 0 $seed; done) &
for seed in 2 4 6 8; do alone 1 $seed; done
wait $!
# SPO-tree came to fewer tokens.
python -m analysis compare experiments/11_credit/compare $runs/credit_short_* --without SPO-tree --baseline GRPO \
    --at tokens --out $here/compare
sheet=experiments/16_by_the_clock/compare
python -m analysis compare $sheet $runs/credit_sheet_* --without "RestEM, 9 iterations" --without "lagging count of skills" \
    --without REINFORCE++ --without "PPO, answer in view" --without "RLOO in the martingale's update" \
    --baseline "martingale, answer in view" --at tokens --out $here/compare_sheet
versus() {  # FOLDERS BASELINE AT TABLE: less another one
    python -m analysis compare $1 --baseline "$2" --at "$3" --out $runs/../17_versus/$4
    cp $runs/../17_versus/$4/compare.csv $here/$4.csv
}
versus $here/compare RestEM tokens versus_restem
versus $here/compare "GRPO, likelihood of right answers" tokens versus_likelihood
versus $here/compare "RLOO, 3 large batches" tokens versus_large
versus $here/compare DPO-positive tokens versus_dpo
versus $here/compare_sheet GRPO tokens versus_grpo_sheet
versus $here/compare_sheet RestEM tokens versus_restem_sheet
versus $here/compare_sheet "GRPO, likelihood of right answers" tokens versus_likelihood_sheet
# Seconds compare on one machine alone: the martingale of 16 once more, which ends as before.
experiments/sweep_two.sh experiments/16_by_the_clock/runs.jsonnet $runs/../16_by_the_clock/compared
martingale=$(echo $runs/../16_by_the_clock/compared/credit_sheet_vine_privileged_*)
versus "$martingale $(echo $runs/credit_sheet_restem_longer_*)" "RestEM, 9 iterations" seconds versus_clock
versus "$martingale $(echo $runs/credit_sheet_restem_last_epoch_*)" "RestEM, last epoch" seconds versus_clock_three
python -m analysis learning-curves $martingale --out $runs/../17_versus/martingale
cp $runs/../17_versus/martingale/learning_curves.csv $here/learning_curves_clock.csv
for setting in short sheet; do
    python -m analysis learning-curves $runs/credit_${setting}_* --out $runs/../17_versus/$setting
    cp $runs/../17_versus/$setting/learning_curves.csv $here/learning_curves_$setting.csv
done
set --
for method in restem dpo dpo_steps grpo_positive vine_privileged_positive; do
    set -- "$@" $runs/credit_short_${method}_seed[567]
done
for method in grpo rloo ppo vineppo_k3; do  # after 11
    set -- "$@" $runs/../11_credit/credit_short_${method}_seed[567]
done
python -m analysis experiments/17_without_rl/diversity.py "$@" --out $here/diversity
