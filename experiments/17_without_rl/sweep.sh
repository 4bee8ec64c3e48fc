#!/bin/sh
# Rates of each method, for self-training whether an iteration starts over, and for reinforcement
# learning in RestEM's few large batches, on a seed that no comparison uses; one core, an hour and a half. A
# finished run is not repeated.
set -e
here=experiments/17_without_rl
runs=${RUNS:-runs/17_without_rl_sweep}
export OMP_NUM_THREADS=1
common="--set seed=101 --set evaluation.every=0 --set checkpoint.every=0 --set logging.wandb_project=null"
leaf() {  # METHOD: its config
    case $1 in
        restem) echo configs/recipes/self_training.jsonnet ;;
        dpo | dpo_steps) echo $here/$1_short.jsonnet ;;
        vine_privileged) echo configs/recipes/privileged.jsonnet ;;
        oracle) echo configs/recipes/oracle.jsonnet ;;
        *) echo experiments/11_credit/credit_short_$1.jsonnet ;;
    esac
}
# Six runs of RestEM, seven of the others: the best of DPO's six was at the edge.
self_train() {  # METHOD RATE RESTART
    run=$runs/$1_$2_$3
    [ -d $run/final ] || vineppo sft $(leaf $1) --run-dir $run $common \
        --set optimization.learning_rate=$2 --set self_training.restart=$3
}
for restart in true false; do
    for rate in 5e-5 1e-4 2e-4; do self_train restem $rate $restart; done
    for rate in 1e-5 2e-5 5e-5; do self_train dpo $rate $restart; done
    for rate in 5e-5 1e-4; do self_train dpo_steps $rate $restart; done
done
self_train dpo 1e-4 false
for rate in 1e-5 2e-5; do self_train dpo_steps $rate false; done
self_train dpo_steps 1e-5 true
for rate in 5e-5 1e-4 2e-4 4e-4; do  # the best of three was at the edge
    run=$runs/restem_sheet_$rate
    [ -d $run/final ] || vineppo sft $here/restem_sheet.jsonnet --run-dir $run $common \
        --set optimization.learning_rate=$rate
done
# One iteration more, whose rewards are those of the policy after three.
for method in grpo rloo vine_privileged oracle; do
    # At 2e-4 the first two collapse, as RLOO and the count of skills do in 11; the others were not run there.
    for rate in $([ $method = vine_privileged ] && echo 6.25e-6) 1.25e-5 2.5e-5 5e-5 1e-4 $([ $method = grpo ] || [ $method = rloo ] && echo 2e-4); do
        run=$runs/${method}_large_$rate
        [ -d $run/final ] || vineppo train $(leaf $method) --run-dir $run $common \
            --set optimization.learning_rate=$rate --set num_iterations=4 --set optimization.num_epochs=4 \
            --set rollouts.num_prompts=40 --set rollouts.num_samples=8
    done
done
# The likelihood of right answers beside GRPO's loss, six runs; and the martingale at the best of them.
positive() {  # METHOD COEF RATE
    run=$runs/$1_positive_$2_$3
    [ -d $run/final ] || vineppo train $(leaf $1) --run-dir $run $common \
        --set optimization.learning_rate=$3 \
        --set "optimization.positive_examples={\"coef\":$2,\"min_reward\":0.5}"
}
for coef in 0.3 1; do
    for rate in 5e-5 1e-4; do positive grpo $coef $rate; done
done
for rate in 2.5e-5 5e-5; do positive grpo 3 $rate; done
positive vine_privileged 1 5e-5
python $here/sweep.py $runs
