"""claims.py RUN BASE OUT.csv: what values without continuations know of a line.

They are of the states that gradient-variance sampled. The truth is the mean of the last 6 of 9
continuations; the first 3 are predictors. Correlations are corrected for the truth's own noise,
p(1 − p)/(K − 1). BASE is the model before fine-tuning. Predictors:

    answer     log-probability of the true answer behind the prefix and a forced "#### "
               (TRACE, answer-belief progress)
    centred    the same, less the mean of the problem's states at the same line
    log_ratio  Σ log π(a_t)/π_base(a_t) of the prefix (Progress Advantage)
    mc_1, mc_3 continuations
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, bootstrap_weights
from vineppo.run_dir.config import read_config
from vineppo.tasks import load_task

NUM_DRAWS = 3
METRICS = "within problems", "differences of lines"
PREDICTORS = ("mc_3", "mc_1", "answer", "centred", "log_ratio")


def token_logprobs(model, ids: list[int]) -> np.ndarray:
    """Log-probabilities of all tokens but the first, [T − 1]."""
    tokens_T = torch.tensor(ids)
    with torch.no_grad():
        logits_TV = model(tokens_T[None, :-1]).logits[0].float()
    return logits_TV.log_softmax(-1).gather(-1, tokens_T[1:, None])[:, 0].numpy()


def states_of(rollout: dict, policy, base, forced_ids: list[int], num_answer: int) -> list[dict]:
    """A row a boundary. The last `num_answer` of the forced tokens are the answer."""
    prompt, response = list(rollout["prompt_ids"]), list(rollout["response_ids"])
    ours_T, bases_T = (
        token_logprobs(model, prompt + response)[len(prompt) - 1 :] for model in (policy, base)
    )
    progress_T = np.concatenate([[0], np.cumsum(ours_T - bases_T)])
    rows = []
    for step, start in enumerate(rollout["step_starts"]):
        draws_K = rollout["returns_SK"][step]
        forced = token_logprobs(policy, prompt + response[:start] + forced_ids)[-num_answer:]
        rows.append(
            {
                "problem": rollout["problem_id"],
                "rollout": (rollout["half"], rollout["problem_id"], rollout["rollout_index"]),
                "step": step,
                "truth": np.mean(draws_K[NUM_DRAWS:]),
                "num_draws": len(draws_K) - NUM_DRAWS,
                "mc_1": draws_K[0],
                "mc_3": np.mean(draws_K[:NUM_DRAWS]),
                "answer": forced.sum(),
                "log_ratio": progress_T[start],
            }
        )
    return rows


def correlations(rows: pd.DataFrame, weights_N: np.ndarray) -> dict[str, float]:
    """Pearson's, of values about their problem's mean and of differences of lines."""
    found = {}
    for metric, frame in zip(
        METRICS, (rows[~rows.is_difference], rows[rows.is_difference]), strict=True
    ):
        w = weights_N[frame.index]
        truth, noise = frame.truth.to_numpy(), frame.noise.to_numpy()
        for name in PREDICTORS:
            x = frame[name].to_numpy()
            if metric == METRICS[0]:
                means = frame.groupby("problem")[[name, "truth"]].transform("mean")
                x, y = x - means[name].to_numpy(), truth - means.truth.to_numpy()
            else:
                x, y = x - np.average(x, weights=w), truth - np.average(truth, weights=w)
            spread = (w * y * y).sum() - (w * noise).sum()
            scale = np.sqrt((w * x * x).sum() * max(spread, 1e-12))
            found[f"{name}/{metric}"] = (w * x * y).sum() / scale
    return found


def main() -> None:
    torch.set_float32_matmul_precision("medium")
    run, base_path, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    policy_path = read_config(run).model.path
    policy, base = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
        for path in (policy_path, base_path)
    )
    tokenizer = AutoTokenizer.from_pretrained(policy_path)
    answers = {problem.id: problem.answer for problem in load_task(read_config(run).task).train_P}
    (table,) = (run / "out/sampled").rglob("*.parquet")
    rows = []
    for rollout in pd.read_parquet(table).to_dict("records"):
        mark_ids, answer_ids = (
            tokenizer(text, add_special_tokens=False).input_ids
            for text in ("#### ", answers[rollout["problem_id"]])
        )
        rows += states_of(rollout, policy, base, mark_ids + answer_ids, len(answer_ids))
    states = pd.DataFrame(rows)
    states["centred"] = states.answer - states.groupby(["problem", "step"]).answer.transform("mean")
    states["noise"] = states.truth * (1 - states.truth) / (states.num_draws - 1)
    states["is_difference"] = False
    numbers = ["truth", *PREDICTORS]
    following = states.groupby("rollout")[numbers].shift(-1)
    changes = states.assign(**{name: following[name] - states[name] for name in numbers})
    changes["noise"] = states.noise + states.groupby("rollout").noise.shift(-1)
    changes["is_difference"] = True
    # A rollout's first state is its siblings' too.
    states = states[(states.step > 0) | ~states.duplicated(["problem", "step", "truth", "mc_3"])]
    rows = pd.concat([states, changes.dropna(subset=["truth"])]).reset_index(drop=True)
    estimates = bootstrap_weights(
        lambda weights_N: correlations(rows, np.asarray(weights_N, float)),
        rows.problem.tolist(),
        np.random.default_rng(BOOTSTRAP_SEED),
        num_resamples=500,
        level=LEVEL,
    )
    found = [
        [*key.split("/"), estimate.value, estimate.low, estimate.high]
        for key, estimate in estimates.items()
    ]
    columns = ["predictor", "metric", "value", "value_low", "value_high"]
    pd.DataFrame(found, columns=columns).to_csv(out, index=False)


if __name__ == "__main__":
    main()
