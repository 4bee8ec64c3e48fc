#!/bin/sh
# From the repository's root, in the project's environment; two cores, an hour. What is there is kept.
set -e
here=experiments/16_gradient_noise
runs=${RUNS:-runs/16_gradient_noise}
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
python experiments/16_gradient_noise/kept.py $runs/measured/gradients $here $main
python -m analysis gradient-variance $here --out $here
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
    python -m analysis advise $runs/noise --checkpoints $checkpoint --iterations 15 --continuations 1,3,9 \
        --out $runs/advice/sheet_$checkpoint
    cp $runs/advice/sheet_$checkpoint/advise.csv $here/advice/advise_$checkpoint.csv
done
for folder in $here $here/further; do
    python experiments/13_gradient_noise/predicted.py $folder $runs/advice/sheet_*
done
