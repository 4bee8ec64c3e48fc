"""gsm8k_critics.py RUN TRAINED VALUED MODEL RATE HEAD EPOCHS OUT.csv: a critic of RUN's policy.

It starts from MODEL and learns from the rewards of the iterations TRAINED ("1,2"). After each
epoch OUT.csv gets a row: how well its values of VALUED's states foretell the rewards there, and how
well the mean of TRAINED does. Of no epoch MODEL is asked, yes or no. Where VALUED's states
have a truth, the values are added to it as "MODEL_RATE_HEAD_EPOCHS", or "asked_MODEL", which
`value-accuracy` reads. HEAD is the rate of a head that starts at 0, or "normal". It is "hl_gauss"
for histograms. Their head has ten times RATE. Of log-ratios it is what they fit, "end" or
"prefixes". A further argument is a folder for the trained model.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.sampling.rollouts import read_saved
from analysis.truth import FOLDER, read_truth, write_truth
from vineppo.distributed import init_distributed
from vineppo.encoding import encode_problems
from vineppo.models import load_model
from vineppo.recipes.hl_gauss import HlGauss
from vineppo.recipes.log_ratio import LogRatio
from vineppo.recipes.yes_no import YesNo, ZeroShot
from vineppo.run_dir.config import read_config
from vineppo.tasks import load_task
from vineppo.values.separate import SeparateValueModel

QUESTION = {
    "kind": "yes_no",
    "question": "\n\nIs this going to end with the right answer? Answer Yes or No:",
    "yes": " Yes",
    "no": " No",
    "trained": False,
}
run, trained, valued, model = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
rate, head, num_epochs, out = float(sys.argv[5]), sys.argv[6], int(sys.argv[7]), Path(sys.argv[8])
name = model.split("/final/")[0].split("/")[-1]
name = f"{name}_{rate:g}_{head}_{num_epochs}" if num_epochs else f"asked_{name}"


def cross_entropy(values_N: np.ndarray, rewards_N: np.ndarray) -> float:
    likely_N = np.where(rewards_N > 0, values_N, 1 - values_N)
    return float(-np.log(likely_N.clip(1e-4)).mean())


if out.exists():
    done = pd.read_csv(out, dtype={"trained": str})
    done = done[(done.predictor == name) & (done.valued == valued) & (done.epoch == num_epochs)]
    if trained in set(done.trained):
        sys.exit()
init_distributed()
config = read_config(run)
batch_size = 2 * config.rollouts.num_samples  # two problems
form = {"path": model, "learning_rate": rate, "num_epochs": 1}
form |= {"batch_size": batch_size, "micro_batch_size": batch_size}
kind = SeparateValueModel
if head in ("end", "prefixes"):
    kind, form["fit"], form["head_learning_rate"] = LogRatio, head, None
    form["micro_batch_size"] //= 2
elif head == "normal":
    form |= {"head_init": "normal", "head_learning_rate": None}
else:
    kind, head_rate = (HlGauss, 10 * rate) if head == "hl_gauss" else (kind, float(head))
    form |= {"head_init": "zero", "head_learning_rate": head_rate}
critic_config = kind.Config(**vars(config.critic) | form)
config = replace(config, num_iterations=max(num_epochs, 1), critic=critic_config)
loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
prompts = encode_problems(config, loaded, load_task(config.task).train_P, config.task.too_long)
problems = {prompt.problem.id: prompt.problem for prompt in prompts}
old, new = (
    [one for i in iterations.split(",") for one in read_saved(run, int(i), problems.__getitem__)]
    for iterations in (trained, str(valued))
)
for one in old:
    length = len(one.response_ids)
    one.tokens_T |= {"values/new": (one.reward,) * length}  # with λ = 1 the targets hold none
    one.tokens_T |= {"rewards": (0.0,) * (length - 1) + (one.reward,)}
rewards = np.array([one.reward for one in new for _ in one.spans_S])
means = np.full(len(rewards), np.mean([one.reward for one in old]))
if num_epochs:
    critic = kind("new", config, critic_config, loaded)
    critic.start(None)  # it asks nothing of a policy
    critic.prepare_update(old)
else:
    critic = ZeroShot("new", config, YesNo.Config(**vars(critic_config) | QUESTION), loaded)
for epoch in range(1 if num_epochs else 0, num_epochs + 1):
    started = time.perf_counter()
    found = critic.update(old, epoch) if epoch else {}
    seconds = time.perf_counter() - started
    critic.estimate(new)
    values = np.array([value for one in new for value in one.values_S("new")])
    row = {"predictor": name, "trained": trained, "valued": valued, "epoch": epoch} | {
        "num_rewards": len(old) if epoch else 0,
        "loss": found.get(f"{critic.metrics_group}/loss"),
        "cross_entropy": cross_entropy(values, rewards),
        "cross_entropy_of_mean": cross_entropy(means, rewards),
        "correlation": np.corrcoef(values, rewards)[0, 1],
        "values_std": values.std(),
        "seconds": round(seconds),
    }
    print(row, flush=True)
    if epoch == num_epochs and len(sys.argv) > 9:  # before the row, which says that it is done
        critic.save_hf(Path(sys.argv[9]))
    pd.DataFrame([row]).to_csv(out, mode="a", index=False, header=not out.exists())
of_rollouts = {one.key: one.values_S("new") for one in new}
for path in (run / "analysis/ground-truth" / FOLDER / run.name).glob("*.parquet"):
    states = read_truth(path)
    if states[0].rollout_iteration == valued:
        for state in states:
            of_steps = of_rollouts[state.problem_id, state.rollout_index]
            state.predictions[name] = of_steps[state.step_index]
        write_truth(path, states)
