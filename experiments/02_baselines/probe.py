"""How much of the outcome a linear model reads off the starting policy's own uncertainty.

    python experiments/02_baselines/probe.py RUN_DIR

Regresses the reward of every rollout of a run whose policy is frozen (`critic_alone_1e-3,2` of
sweep.sh) on five numbers: sum and minimum of the response's log-probabilities, sum and maximum of
the entropies, and length. The first 80 % of the rollouts fit, the rest tell the explained variance.
"""

import sys

import torch

from vineppo.batching import collate
from vineppo.models import load_model
from vineppo.run_dir import RunDir
from vineppo.token_scores import ForwardOptions, TokenLogprobs
from vineppo.types import TokenSequence


@torch.no_grad()
def main() -> None:
    run = RunDir(sys.argv[1])
    rollouts = [row for i in run.iterations("rollouts") for row in run.read_rollouts(i)]
    config = run.read_config()
    loaded = load_model(config["model"]["path"], "float32", "sdpa")
    forward = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids)
    options = ForwardOptions(config["sampling"]["temperature"], has_entropy=True)
    features = []
    for row in rollouts:
        sequence = TokenSequence(tuple(row["prompt_ids"]), tuple(row["response_ids"]))
        batch = collate([sequence], torch.device("cpu"))
        scores = forward(batch, options)
        logprobs_T, entropy_T = (
            scores[name][batch.response_mask_BT] for name in ("logprobs_BT", "entropy_BT")
        )
        numbers = [logprobs_T.sum(), logprobs_T.min(), entropy_T.sum(), entropy_T.max()]
        features.append([*(number.item() for number in numbers), len(logprobs_T), 1.0])
    x = torch.tensor(features, dtype=torch.float64)
    y = torch.tensor([row["reward"] for row in rollouts], dtype=torch.float64)
    split = len(rollouts) * 4 // 5
    weights = torch.linalg.lstsq(x[:split], y[:split, None]).solution.squeeze(1)
    error = y[split:] - x[split:] @ weights
    explained = 1 - error.var(correction=0) / y[split:].var(correction=0)
    print(f"{split} rollouts to fit, {len(rollouts) - split} to test: {explained:.3f} explained")


if __name__ == "__main__":
    main()
