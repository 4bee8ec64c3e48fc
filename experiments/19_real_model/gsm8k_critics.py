"""gsm8k_critics.py RUN_DIR ITERATION RATE EPOCHS: RUN_DIR's critic, anew, on the rollouts before.

What it says of ITERATION's states is added to their truth as "critic_RATE_EPOCHS", which
`value-accuracy` reads.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

from analysis.sampling.rollouts import read_saved
from analysis.truth import read_truth, truth_path, write_truth
from vineppo.distributed import init_distributed
from vineppo.encoding import encode_train_problems
from vineppo.models import load_model
from vineppo.run_dir.config import read_config
from vineppo.tasks import load_task
from vineppo.values.separate import SeparateValueModel

run, iteration, rate, epochs = (
    Path(sys.argv[1]),
    int(sys.argv[2]),
    float(sys.argv[3]),
    int(sys.argv[4]),
)
name = f"critic_{rate:g}_{epochs}"
init_distributed()
config = read_config(run)
config = replace(
    config, num_iterations=1, critic=replace(config.critic, learning_rate=rate, num_epochs=epochs)
)
loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
prompts = encode_train_problems(config, loaded, load_task(config.task).train_P)
problems = {prompt.problem.id: prompt.problem for prompt in prompts}
before = [one for i in range(1, iteration) for one in read_saved(run, i, problems.__getitem__)]
for one in before:
    length = len(one.response_ids)
    one.tokens_T |= {"values/new": (one.reward,) * length}  # with λ = 1 the targets hold none
    one.tokens_T |= {"rewards": (0.0,) * (length - 1) + (one.reward,)}
critic = SeparateValueModel("new", config, config.critic, loaded)
critic.start(None)  # it asks nothing of a policy
critic.prepare_update(before)
started = time.perf_counter()
print(
    name, len(before), "rewards", critic.update(before, 1), f"{time.perf_counter() - started:.0f} s"
)
rollouts = read_saved(run, iteration, problems.__getitem__)
critic.estimate(rollouts)
values = {one.key: one.values_S("new") for one in rollouts}
path = truth_path(run / "analysis/ground-truth", run, iteration)
states = read_truth(path)
for state in states:
    state.predictions[name] = values[state.problem_id, state.rollout_index][state.step_index]
write_truth(path, states)
