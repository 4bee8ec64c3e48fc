"""claims.py RUN TRAINED OUT: values of claims.jsonnet's last iteration, against the closed form.

Writes OUT/value_accuracy_states.parquet, which `python -m analysis value-accuracy OUT` scores. Its
truth is the predictor `exact`. Besides the run's predictors it has

    mc_1, mc_3 continuations, those that `ground-truth` drew of some of the states
    answer     log-probability of the true answer behind the prefix and a forced "####" (TRACE)
    centred    the same, less the mean of the problem's states at the same line
    log_ratio  Σ log π_trained(a_t)/π(a_t) of the prefix, TRAINED the run of a policy that learned
               from as many rewards (Progress Advantage)

    claims.py tuned RUN: what each rate and β explains of the last iteration's rewards
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from analysis.rollout_files import predictions_by_state, read_rollouts, state_key, values_by_state
from analysis.truth import find_truth, read_truth
from analysis.value_states import STATES, STATES_NAME
from vineppo.models import load_model
from vineppo.run_dir import write_parquet
from vineppo.run_dir.config import read_config
from vineppo.tasks import load_task

HERE, M, BATCH = Path(__file__).parent, 10_000, 256  # the truth is a count of M


def logprobs(path: str, sequences: list[list[int]]) -> list[np.ndarray]:
    """[T − 1] for each sequence: every token but the first."""
    model, found = load_model(path, "float32", "sdpa").model.eval(), []
    for first in range(0, len(sequences), BATCH):
        some = [torch.tensor(ids) for ids in sequences[first : first + BATCH]]
        ids_BT = torch.nn.utils.rnn.pad_sequence(some, batch_first=True)
        with torch.no_grad():
            all_BTV = model(input_ids=ids_BT[:, :-1]).logits.log_softmax(-1)
        of_BT = all_BTV.gather(-1, ids_BT[:, 1:, None])[..., 0].numpy()
        found += [of_T[: len(ids) - 1] for of_T, ids in zip(of_BT, some, strict=True)]
    return found


def tuned(run: Path) -> None:
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    pattern = re.compile(r"values/(\w+)_beta(\d+)_rate([\de-]+)/explained_variance")
    rows = [(*match.groups(), v) for k, v in last.items() if (match := pattern.fullmatch(k))]
    table = pd.DataFrame(rows, columns=["predictor", "beta", "rate", "explained_variance"])
    table.to_csv(HERE / "claims/tuned.csv", index=False, float_format="%.6f")


def main(run: Path, trained: Path, out: Path) -> None:
    config = read_config(run)
    last = config.num_iterations
    rollouts = read_rollouts(run, last, ("prompt_ids", "response_ids", "reward"))
    policy = "embedded:credit_short"
    tokenizer = load_model(policy, "float32", "sdpa").tokenizer
    drawn = {s.key: s.draws_D for s in read_truth(find_truth(run, (), ())[last])}
    answers = {p.id: p.answer for p in load_task(config.task).train_P}
    whole = [[*row["prompt_ids"], *row["response_ids"]] for row in rollouts]
    ours, theirs = logprobs(policy, whole), logprobs(str(trained / "final/policy"), whole)
    known = predictions_by_state(run, last)
    critics = values_by_state(run, last)
    rows, forced = [], []
    for row, ids, our_T, their_T in zip(rollouts, whole, ours, theirs, strict=True):
        num_prompt, starts = len(row["prompt_ids"]), row["step_starts"]
        tail = tokenizer.encode("####" + answers[row["problem_id"]], add_special_tokens=False)
        for step, start in enumerate(starts):
            about = {
                "problem_id": row["problem_id"], "rollout_index": row["rollout_index"],
                "step_index": step, "num_steps": len(starts), "reward": row["reward"],
                "position": start / len(row["response_ids"]),
            }  # fmt: skip
            of = {name: rows_S[state_key(about)] for name, rows_S in known.items()}
            change_T = (their_T - our_T)[num_prompt - 1 : num_prompt - 1 + start]
            values = {name: found["value"] for name, found in of.items()}
            if (returns := drawn.get(state_key(about))) is not None:
                values |= {f"mc_{k}": np.mean(returns[:k]) for k in (1, 3)}
            values |= {
                "log_ratio": change_T.sum(),
                "critic": critics[state_key(about)]["critic_value"],
            }
            rows.append(about | {"values": values})
            forced.append(ids[: num_prompt + start] + tail)
    for row, of_T in zip(rows, logprobs(policy, forced), strict=True):
        row["values"]["answer"] = of_T[-len(answers[row["problem_id"]]) :].sum()
    lines = pd.DataFrame(rows).groupby(["problem_id", "step_index"])
    for _, of_line in lines:
        mean = np.mean([rows[i]["values"]["answer"] for i in of_line.index])
        for i in of_line.index:
            rows[i]["values"]["centred"] = rows[i]["values"]["answer"] - mean
    about = {
        "run_dir": run.name, "method": config.name, "task": "", "seed": config.seed,
        "checkpoint": last - 1, "rollout_iteration": last, "num_samples": M,
    }  # fmt: skip
    states = [
        {k: v for k, v in row.items() if k != "values"} | about
        | {"predictor": name, "prediction": float(value), "num_returns": None,
           "num_correct": round(M * row["values"]["exact"])}
        for row in rows
        for name, value in row["values"].items()
        if name != "exact"
    ]  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write_parquet(out / STATES_NAME, states, STATES)


if __name__ == "__main__":
    if sys.argv[1] == "tuned":
        tuned(Path(sys.argv[2]))
    else:
        main(*map(Path, sys.argv[1:]))
