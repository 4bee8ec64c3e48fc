#!/bin/sh
# From the repository's root, in the project's environment; two cores, three hours without the fair control. What is there is kept.
set -e
here=experiments/16_by_the_clock
runs=${RUNS:-runs/16_by_the_clock}
experiments/sweep_two.sh $here/sweep.jsonnet ${runs}_sweep
python experiments/11_credit/sweep.py ${runs}_sweep $here/sweep.csv
experiments/sweep_two.sh $here/runs.jsonnet $runs/compared
python -m analysis learning-curves $runs/compared/credit_sheet_* --out $here/curves
python -m analysis compare $runs/compared/credit_sheet_* --baseline "martingale, answer in view" --out $here/compare
rm $here/compare/compare.png  # no page shows it
versus() {  # NAME BASELINE METHODS
    python -m analysis compare $here/compare --baseline "$2" --out $runs/versus_$1
    grep -E "^setting,|^credit_sheet,($3),.*,welch," $runs/versus_$1/compare.csv > $here/versus/$1.csv
}
versus k3 "VinePPO, K = 3" "RLOO|GRPO|PPO"
versus rloo RLOO 'cuts|cuts by expectation|"RLOO, shrunk mean"|martingale|joined|"joined, answer in view"|"joined, answer in view, 5e-5"'
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
# By the clock once more, on new seeds, with continuations that begin while their rollout runs.
experiments/sweep_two.sh $here/clock.jsonnet $runs/new_seeds
python -m analysis learning-curves $runs/new_seeds/* --out $runs/curves_new
mkdir -p $here/clock
cp $runs/curves_new/learning_curves.csv $here/clock
for baseline in RLOO GRPO "martingale, answer in view"; do
    for at in iteration seconds; do
        python -m analysis compare $runs/new_seeds/* --baseline "$baseline" --at "$at" --out $runs/versus_new > /dev/null
        cat $runs/versus_new/compare.csv
    done
done | grep -E "^setting,|,welch," | awk 'NR == 1 || !/^setting,/' > $here/clock/versus.csv
# The fair control: one update and one rate for all.
experiments/sweep_two.sh $here/fair/sweep.jsonnet ${runs}_fair_sweep
python experiments/11_credit/sweep.py ${runs}_fair_sweep $here/fair/sweep.csv
experiments/sweep_two.sh $here/fair/runs.jsonnet $runs/fair
python -m analysis learning-curves $runs/fair/* --out $runs/fair_curves
cp $runs/fair_curves/learning_curves.csv $here/fair
experiments/sweep_two.sh $here/fair/wide.jsonnet $runs/fair_wide
python -m analysis learning-curves $runs/fair_wide/* --out $runs/wide_curves
cp $runs/wide_curves/learning_curves.csv $here/fair/wide_curves.csv
# Seconds of an iteration without an evaluation, two methods at a time.
vineppo sweep $here/fair/runs.jsonnet --list --runs-dir $runs/fair_seconds | awk '/_seed1 / { print $1 }' |
    OMP_NUM_THREADS=1 xargs -P 2 -I {} vineppo sweep $here/fair/runs.jsonnet --runs-dir $runs/fair_seconds --index {} \
        --set num_iterations=10 --set evaluation.every=0
python - $runs/fair_seconds > $here/fair/seconds.csv <<'END'
import sys
from pathlib import Path
import pandas as pd

print("method,iteration,seconds")
for path in sorted(Path(sys.argv[1]).glob("*_seed1/metrics.jsonl")):
    method = path.parent.name.removeprefix("credit_sheet_").removesuffix("_seed1")
    rows = pd.read_json(path, lines=True)[2:]  # the first two warm up
    for iteration, seconds in zip(rows["iteration"], rows["time/total_s"]):
        print(f"{method},{iteration},{seconds:.3f}")
END
# What PPO's critics know: means over seeds and iterations.
python - $runs/fair > $here/fair/critic.csv <<'END'
import sys
from pathlib import Path
import pandas as pd

found = {}
for path in sorted(Path(sys.argv[1]).glob("credit_sheet_ppo_*/metrics.jsonl")):
    method = path.parent.name.removeprefix("credit_sheet_").rpartition("_")[0]
    rows = pd.read_json(path, lines=True).rename(columns=lambda name: name.removeprefix("critic/"))
    row = rows[["explained_variance", "within_problem_correlation", "value_std", "return_std"]].mean()
    row["first_values"], row["first_rewards"] = rows[:10][["value_mean", "reward/mean"]].mean()
    found.setdefault(method, []).append(row)
table = pd.DataFrame({method: pd.DataFrame(rows).mean() for method, rows in found.items()}).T
table.to_csv(sys.stdout, index_label="method", float_format="%.6g")
END
python $here/fair.py
# Both seed sets together.
python - $here/curves $here/clock > $here/versus/both.csv <<'END'
import sys
import pandas as pd
from analysis.stats.comparison import welch

rows = pd.concat(pd.read_csv(f"{folder}/learning_curves.csv") for folder in sys.argv[1:]).query("iteration == 60")
ends = {name: of["pass@1"].to_numpy() for name, of in rows.groupby("method")}
print("baseline,effect,effect_low,effect_high,p_t,num_seeds")
for baseline in ("rloo", "grpo"):
    scores = ends["credit_sheet_vine_privileged"], ends[f"credit_sheet_{baseline}"]
    found = welch(*scores)
    effect = found.effect
    print(f"{baseline.upper()},{effect.value},{effect.low},{effect.high},{found.p_value},{len(scores[0])}")
END
