"""How far PPO with its head at zero is from PPO and VinePPO, by iteration: differences.csv.

Seeds of the starting policy are shared, those of what is sampled are not: Welch's intervals.
"""

from pathlib import Path

import pandas as pd

from analysis.stats.comparison import welch

HERE = Path(__file__).parent

if __name__ == "__main__":
    rows = []
    for setting in ("demo", "long"):
        folders = [HERE / setting, HERE.parent / setting]
        curves = pd.concat(pd.read_csv(folder / "learning_curves.csv") for folder in folders)
        vine = {"demo": "demo_vineppo_k9", "long": "long_vineppo"}[setting]
        for iteration in sorted(set(curves["iteration"])):
            of_method = {
                method: part["pass@1"].to_numpy()
                for method, part in curves[curves["iteration"] == iteration].groupby("method")
            }
            zero, normal = (
                of_method.get(f"{setting}_ppo_{head}_head") for head in ("zero", "normal")
            )
            for name, one, other in (
                ("zero - normal", zero, normal),
                ("VinePPO - zero", of_method.get(vine), zero),
            ):
                if one is not None and other is not None:
                    found = welch(one, other)
                    rows.append(
                        {"setting": setting, "iteration": iteration, "difference": name}
                        | {"effect": found.effect.value, "effect_low": found.effect.low}
                        | {"effect_high": found.effect.high, "p": found.p_value, "seeds": len(one)}
                    )
    pd.DataFrame(rows).to_csv(HERE / "differences.csv", index=False, float_format="%.6g")
