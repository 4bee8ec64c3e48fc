#!/bin/sh
# The comparison on credit_short, after sweep.sh; from the repository's root, in the project's
# environment, two cores. A run takes two to six minutes of one core (VinePPO with K = 9 fifteen), and
# a finished one is not repeated.
set -e
here=experiments/11_credit
runs=${RUNS:-runs/11_credit}
experiments/sweep_two.sh $here/runs.jsonnet $runs
first=$(ls -d $runs/credit_short_* | grep -v -e vineppo_probe -e spo_tree_others -e joined)
python -m analysis learning-curves $first --out $here/curves
python -m analysis compare $first --baseline RLOO --out $here/compare
python -m analysis compare $runs/credit_short_ppo_seed* $runs/credit_short_oracle_seed* $runs/credit_short_vineppo_k[39]_seed* \
    --baseline PPO --out $here/compare_ppo
python -m analysis compare $runs/credit_short_grpo_seed* $runs/credit_short_vineppo_k[39]_seed* \
    --baseline GRPO --out $here/compare_grpo
# Seconds compare on one machine alone: the martingale's are of another day.
python -m analysis compare $here/compare --baseline RLOO --at seconds --without martingale --out $here/equal_seconds
python -m analysis compare $here/compare --baseline RLOO --at tokens --out $here/equal_tokens
for cost in tokens seconds; do
    for baseline in PPO GRPO; do
        folder=$here/compare_$(echo $baseline | tr A-Z a-z)
        python -m analysis compare $folder --baseline $baseline --at $cost --out $folder/equal_$cost
    done
done
# K = 3 against PPO by the spread that all methods share.
python - $here/curves/learning_curves.csv > $here/compare_ppo/pooled.csv <<'END'
import sys
import pandas as pd
from scipy.stats import t

ends = pd.read_csv(sys.argv[1]).query("iteration == 60").groupby("method")["pass@1"]
mean, size, variance = ends.mean(), ends.count(), ends.var()
df = (size - 1).sum()
names = ["credit_short_vineppo_k3", "credit_short_ppo"]
error = (((size - 1) * variance).sum() / df * (1 / size[names]).sum()) ** 0.5
effect, reach = mean[names[0]] - mean[names[1]], t.ppf(0.975, df) * error
print("effect,effect_low,effect_high,df,p_t")
print(f"{effect},{effect - reach},{effect + reach},{df},{2 * t.sf(abs(effect) / error, df)}")
END
# Compared later.
python -m analysis compare $runs/credit_short_vineppo_probe_* $runs/credit_short_spo_tree_others_* $runs/credit_short_rloo_* \
    --baseline RLOO --out $here/later
for cost in tokens seconds; do
    python -m analysis compare $here/later --baseline RLOO --at $cost --out $here/later/equal_$cost
done
# Beside RLOO run anew, on one machine.
vineppo sweep $here/runs.jsonnet --runs-dir ${runs}_joined --list | awk '/_(joined|rloo)_seed/ { print $1 }' |
    OMP_NUM_THREADS=1 xargs -P 2 -I {} vineppo sweep $here/runs.jsonnet --runs-dir ${runs}_joined --index {}
for at in iteration tokens seconds; do
    python -m analysis compare ${runs}_joined/* --baseline RLOO --at "$at" --out ${runs}_versus > /dev/null
    grep -E "^setting,|,welch," ${runs}_versus/compare.csv | { [ "$at" = iteration ] && cat || tail -n 1; }
done | cut -d, -f 1-9 > $here/joined.csv
python -m analysis learning-curves ${runs}_joined/* --out ${runs}_versus
python - ${runs}_versus/learning_curves.csv > $here/joined_runs.csv <<'END'
import sys
import pandas as pd

rows = pd.read_csv(sys.argv[1]).query("iteration == 60")
print(rows[["method", "seed", "pass@1", "elapsed_s", "tokens_sampled"]].round(6).to_csv(index=False), end="")
END
python $here/staleness.py $runs/credit_short_vineppo_probe_*
python -m analysis experiments/11_credit/power.py $here/compare --difference 0.05 --out $here/power
