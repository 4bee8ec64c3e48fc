"""claims.py RUN BASE LEARNED OUT.csv: what values without continuations know of a line.

They are of the states that gradient-variance sampled. The truth is the mean of the last 6 of 9
continuations; the first 3 are predictors. All metrics are corrected for the truth's own noise,
p(1 − p)/(K − 1). BASE is the model before fine-tuning. The folder LEARNED has models that learned
from the rewards of claims.jsonnet. Predictors:

    answer     log-probability of the true answer behind the prefix and a forced "#### "
               (TRACE, answer-belief progress).
    centred    the same, less the mean of the problem's states at the same line.
    log_ratio  Σ log π(a_t)/π_base(a_t) of the prefix (Progress Advantage).
    end        sigmoid of V(s_0) + Σ log π_adapted(a_t)/π(a_t), the reward learned at the end, or
    prefixes   at every prefix (vineppo/recipes/log_ratio.py).
    critic     a head on the policy's lower half, with cross-entropy, or
    hl_gauss   for histograms (vineppo/recipes/hl_gauss.py).
    mc_1, mc_3 continuations.
    constant   the mean of these truths: no constant has a lower squared error.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, bootstrap_weights
from vineppo.recipes.hl_gauss import mean
from vineppo.run_dir.config import read_config
from vineppo.tasks import load_task

NUM_DRAWS = 3
METRICS = "within problems", "differences of lines"
ADAPTED, HEADS = ("end", "prefixes"), ("critic", "hl_gauss")
VALUES = ("mc_3", "mc_1", *ADAPTED, *HEADS)
PREDICTORS = (*VALUES, "answer", "centred", "log_ratio")


def token_logprobs(model, ids: list[int], num: int, temperature: float = 1.0) -> np.ndarray:
    """Log-probabilities of the last `num` tokens."""
    tokens_T = torch.tensor(ids)
    with torch.no_grad():
        logits_TV = model(tokens_T[None, :-1], logits_to_keep=num).logits[0].float() / temperature
    return logits_TV.log_softmax(-1).gather(-1, tokens_T[-num:, None])[:, 0].numpy()


def sigmoid(logit: float) -> float:
    return 1 / (1 + np.exp(-logit))


def value_of(head, ids: list[int]) -> float:
    with torch.no_grad():
        scores = head(torch.tensor([ids])).logits[0].float()
    if len(scores) == 1:
        return sigmoid(scores.item() + head.config.value_offset)
    return mean(scores, torch.tensor(head.config.value_edges)).item()


def states_of(
    rollout: dict,
    policy,
    others: dict,
    heads: dict,
    forced_ids: list[int],
    num_answer: int,
    T: float,
) -> list[dict]:
    """A row a boundary. The last `num_answer` of the forced tokens are the answer.

    Log-ratios are at `T`, the temperature of rollouts and training.
    """
    prompt, response = list(rollout["prompt_ids"]), list(rollout["response_ids"])
    ours_T, *theirs = (
        token_logprobs(model, prompt + response, len(response), T)
        for model in (policy, *others.values())
    )
    changes = {
        name: np.concatenate([[0], np.cumsum(their_T - ours_T)])
        for name, their_T in zip(others, theirs, strict=True)
    }
    rows = []
    for step, start in enumerate(rollout["step_starts"]):
        draws_K = rollout["returns_SK"][step]
        prefix = prompt + response[:start]
        forced = token_logprobs(policy, prefix + forced_ids, num_answer)
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
                "log_ratio": -changes["log_ratio"][start],
            }
            | {name: value_of(head, prefix) for name, head in heads.items()}
            | {
                name: sigmoid(others[name].config.value_offset + changes[name][start])
                for name in ADAPTED
            }
        )
    return rows


def metrics(rows: pd.DataFrame, weights_N: np.ndarray) -> dict[str, float]:
    """Squared errors, and Pearson's of values about their problem's mean and of differences."""
    found, states = {}, rows[~rows.is_difference]
    w = weights_N[states.index]
    states = states.assign(constant=np.average(states.truth, weights=w))
    for name in ("constant", *VALUES):
        errors = (states[name] - states.truth) ** 2 - states.noise
        found[f"{name}/squared error"] = np.average(errors, weights=w)
    for metric, frame in zip(METRICS, (states, rows[rows.is_difference]), strict=True):
        w = weights_N[frame.index]
        truth, noise = frame.truth.to_numpy(), frame.noise.to_numpy()
        for name in PREDICTORS:
            x = frame[name].to_numpy()
            if metric == METRICS[0]:
                of_problem = frame.groupby("problem")[[name, "truth"]]
                means, sizes = of_problem.transform("mean"), of_problem.transform("size")
                x, y = x - means[name].to_numpy(), truth - means.truth.to_numpy()
                noise = frame.noise.to_numpy() * (1 - 1 / sizes.to_numpy())
            else:
                x, y = x - np.average(x, weights=w), truth - np.average(truth, weights=w)
            spread = (w * y * y).sum() - (w * noise).sum()
            scale = np.sqrt((w * x * x).sum() * max(spread, 1e-12))
            found[f"{name}/{metric}"] = (w * x * y).sum() / scale
    for name in (*ADAPTED, "hl_gauss"):
        less = found[f"{name}/{METRICS[1]}"] - found[f"critic/{METRICS[1]}"]
        found[f"{name}/{METRICS[1]}, less the critic's"] = less
    return found


def main() -> None:
    torch.set_float32_matmul_precision("medium")
    run, base, learned, out = map(Path, sys.argv[1:])
    config = read_config(run)
    policy_path, temperature = config.model.path, config.sampling.temperature
    policy, *others = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
        for path in (policy_path, base, *(learned / name for name in ADAPTED))
    )
    named = dict(zip(("log_ratio", *ADAPTED), others, strict=True))
    classifier = AutoModelForSequenceClassification
    heads = {
        name: classifier.from_pretrained(learned / name, dtype=torch.bfloat16).eval()
        for name in HEADS
    }
    tokenizer = AutoTokenizer.from_pretrained(policy_path)
    answers = {problem.id: problem.answer for problem in load_task(config.task).train_P}
    (table,) = (run / "out/sampled").rglob("*.parquet")
    rows = []
    for rollout in pd.read_parquet(table).to_dict("records"):
        mark_ids, answer_ids = (
            tokenizer(text, add_special_tokens=False).input_ids
            for text in ("#### ", answers[rollout["problem_id"]])
        )
        forced_ids, num_answer = mark_ids + answer_ids, len(answer_ids)
        rows += states_of(rollout, policy, named, heads, forced_ids, num_answer, temperature)
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
        lambda weights_N: metrics(rows, np.asarray(weights_N, float)),
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
