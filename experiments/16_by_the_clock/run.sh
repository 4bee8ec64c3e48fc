#!/bin/sh
# From the repository's root, in the project's environment; two cores, four hours. What is there is kept.
set -e
here=experiments/16_by_the_clock
runs=${RUNS:-runs/16_by_the_clock}
python $here/simulate.py
experiments/sweep_two.sh $here/sweep.jsonnet ${runs}_sweep
python experiments/11_credit/sweep.py ${runs}_sweep $here/sweep.csv
# Every estimator's gradients on the same rollouts.
export OMP_NUM_THREADS=1
[ -d $runs/noise/final ] || vineppo train $here/noise.jsonnet --run-dir $runs/noise
main=rloo,martingale_privileged,martingale_posterior,vine_oracle,vine_1,vine_3,vine_9,gae
# Cuts, own outcomes, what is made of one continuation, and trees.
further=vine_1_own,vine_3_own,cuts_1_1_own,cuts_1_3_own,cuts_2_1_own,cuts_2_3_own,cuts_4_1_own,cuts_4_3_own,uncertain_2_3,\
surprisal_2_3,surprisal_2_3_own,expected_1_3_own,expected_2_1_own,expected_2_3_own,expected_4_3_own,entropy_2_3_own,coin_3_1,\
coin_3_1_own,doubly_robust_probe_3_1,vine_pooled,gae_pooled,vine_shrunk,gae_shrunk,vine_smoothed,gae_smoothed,vine_probe,\
gae_probe,gae_shrunk_mean,tree_57_2_2,tree_57_2_2_paper,joined_1_1,joined_2_1,joined_4_1,joined_2_3,joined_4_3,\
joined_posterior_2_1,joined_privileged_2_1
python -m analysis gradient-variance $runs/noise --checkpoints 0,15,30 --problems 64 --continuations 9 \
    --out $runs/measured --estimators $main,$further
rows_of() {  # ESTIMATORS QUANTITIES: of the whole table
    awk -F, -v of=",$1," -v what=",$2," \
        'NR == 1 || index(of, "," $7 ",") && index(what, "," $8 ",")' $runs/measured/gradient_variance.csv
}
python experiments/13_gradient_noise/kept.py $runs/measured/gradients $here/noise $main
python -m analysis gradient-variance $here/noise --out $here/noise
mkdir -p $here/further
rows_of rloo,vine_1,vine_3,vine_oracle,martingale_posterior,gae,martingale_privileged,$further \
    trace_ratio,trace_time_ratio,num_tokens > $here/further/gradient_variance.csv
# Outcomes joined with continuations, on that run and on one of another seed.
mkdir -p $here/joined
for seed in 1 2; do
    run=$runs/noise$([ $seed = 1 ] || echo _seed$seed)
    [ -d $run/final ] || vineppo train $here/noise.jsonnet --run-dir $run --set seed=$seed
    python -m analysis gradient-variance $run --checkpoints 0,15,30 --problems 64 --continuations 3 --out $runs/joined_$seed \
        --estimators rloo,martingale_privileged,martingale_posterior,expected_1_1_own,expected_2_1_own,expected_2_3_own,\
expected_4_3_own,joined_1_1,joined_2_1,joined_4_1,joined_2_3,joined_4_3,joined_posterior_2_1,joined_privileged_1_1,\
joined_privileged_2_1,joined_privileged_4_1,joined_privileged_2_3,joined_privileged_4_3
done
awk -F, 'FNR == 1 && NR > 1 { next } FNR == 1 || $8 ~ /^(trace_ratio|trace_time_ratio|num_tokens|time_s|adam_gain_ratio)$/' \
    $runs/joined_1/gradient_variance.csv $runs/joined_2/gradient_variance.csv > $here/joined/gradient_variance.csv
for checkpoint in 15 30; do
    python -m analysis advise $runs/noise --checkpoints $checkpoint --num-iterations 15 --continuations 1,3,9 \
        --out $runs/advice/sheet_$checkpoint
    cp $runs/advice/sheet_$checkpoint/advise.csv $here/advice/advise_$checkpoint.csv
done
for folder in noise further; do
    python experiments/13_gradient_noise/predicted.py $here/$folder $runs/advice/sheet_*
done
experiments/sweep_two.sh $here/runs.jsonnet $runs/compared
python -m analysis learning-curves $runs/compared/credit_sheet_* --out $here/curves
python -m analysis compare $runs/compared/credit_sheet_* --baseline "martingale, answer in view" --out $here/compare
# Seconds of the four whose runs shared a machine.
python -m analysis compare $runs/compared/credit_sheet_vine_privileged_* $runs/compared/credit_sheet_rloo_seed* \
    $runs/compared/credit_sheet_grpo_* $runs/compared/credit_sheet_ppo_seed* --baseline "martingale, answer in view" \
    --at seconds --out $here/compare_seconds
versus() {  # NAME BASELINE METHODS
    python -m analysis compare $here/compare --baseline "$2" --out $runs/versus_$1
    grep -E "^setting,|^credit_sheet,($3),.*,welch," $runs/versus_$1/compare.csv > $here/versus/$1.csv
}
versus k3 "VinePPO, K = 3" "RLOO|GRPO|PPO"
versus ppo PPO '"PPO, answer in view"'
versus rloo RLOO 'cuts|cuts by expectation|"RLOO, shrunk mean"|martingale|joined|"joined, answer in view"|"joined, answer in view, 5e-5"'
versus cuts cuts 'cuts by expectation'
# Beside each other on one machine.
python -m analysis compare $runs/compared/credit_sheet_cuts_seed[1-5] $runs/compared/credit_sheet_rloo_seed[1-5] \
    --baseline RLOO --at seconds --out $runs/versus_seconds
grep -E "^setting,|,cuts,.*,welch," $runs/versus_seconds/compare.csv > $here/versus/seconds.csv
vineppo sweep $here/runs.jsonnet --runs-dir $runs/clock --list | awk '/_(expected|rloo)_seed/ { print $1 }' |
    OMP_NUM_THREADS=1 xargs -P 2 -I {} vineppo sweep $here/runs.jsonnet --runs-dir $runs/clock --index {}
python -m analysis compare $runs/clock/* --baseline RLOO --at seconds --out $runs/versus_clock
grep -E ",RLOO,.*,welch," $runs/versus_clock/compare.csv >> $here/versus/seconds.csv
vineppo sweep $here/runs.jsonnet --runs-dir $runs/clock_joined --list | awk '/_(joined|joined_privileged|rloo|grpo)_seed/ { print $1 }' |
    OMP_NUM_THREADS=1 xargs -P 2 -I {} vineppo sweep $here/runs.jsonnet --runs-dir $runs/clock_joined --index {}
python -m analysis compare $runs/clock_joined/* --baseline RLOO --at seconds --out $runs/versus_joined
grep -E ",RLOO,.*,welch," $runs/versus_joined/compare.csv >> $here/versus/seconds.csv
python -m analysis learning-curves $runs/clock_joined/* --out $runs/clock_curves
python - $runs/clock_curves/learning_curves.csv > $here/versus/beside.csv <<'END'
import sys
import pandas as pd

rows = pd.read_csv(sys.argv[1]).query("iteration == 60")
print(rows[["method", "seed", "elapsed_s"]].round(2).to_csv(index=False), end="")
END
# By the clock once more, on new seeds, with continuations that begin while their rollout runs.
experiments/sweep_two.sh $here/clock.jsonnet $runs/new_seeds
python -m analysis learning-curves $runs/new_seeds/* --out $runs/curves_new
mkdir -p $here/clock
cp $runs/curves_new/learning_curves.csv $runs/curves_new/phases.csv $here/clock
for baseline in RLOO GRPO "martingale, answer in view"; do
    for at in iteration seconds; do
        python -m analysis compare $runs/new_seeds/* --baseline "$baseline" --at "$at" --out $runs/versus_new > /dev/null
        cat $runs/versus_new/compare.csv
    done
done | awk 'NR == 1 || !/^setting,/' > $here/clock/versus.csv
