"""Run directories for the report's tests, and readers of the page."""

import json

from analysis.__main__ import main
from analysis.truth import TruthState, truth_path, write_truth
from vineppo.run_dir import RunDir

# Ends a script element, starts another, opens a comment, is markup, is wide, is long.
HOSTILE = (
    "</script><script>document.title = 'owned'</script>\n"
    "<img src=x onerror=\"document.title = 'owned'\"><b>bold</b> &amp; 😀 <!-- <script>\n"
    + "x"
    * 3000
)
HOSTILE_NAME = "</script><img src=x onerror=\"document.title = 'owned'\"><b>"
HOSTILE_ID = 'hostile/<b>&"0'


def give_hostile_name(path):
    """Names a run as no config may, but as a file of somebody else's can."""
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"name": HOSTILE_NAME}))


def add_hostile_rollout(path, iteration):
    """A rollouts table of one response, a step a line, for which the tokenizer grows."""
    file = path / "final" / "policy" / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocab = tokenizer["model"]["vocab"]
    for character in HOSTILE:
        vocab.setdefault(character, len(vocab))
    file.write_text(json.dumps(tokenizer))
    ids = [vocab[character] for character in HOSTILE]
    starts = [0] + [place + 1 for place, character in enumerate(HOSTILE) if character == "\n"]
    row = {
        "problem_id": HOSTILE_ID,
        "rollout_index": 0,
        "prompt_ids": ids[:50],
        "response_ids": ids,
        "logprobs": [-0.1] * len(ids),
        "text": HOSTILE,
        "reward": 0.0,
        "finish_reason": "length",
        "step_starts": starts,
        "advantages_S": [-0.5, 0.0, 0.25],
    }
    RunDir(path).write_rollouts(iteration, [row])


def add_truth(out, run_path, checkpoint, counts, iteration=12, num_samples=50):
    """Writes `counts`, num_correct by (problem, rollout, step), as the table of a checkpoint."""
    rows = {
        (r["problem_id"], r["rollout_index"]): r for r in RunDir(run_path).read_rollouts(iteration)
    }
    states = []
    for (problem_id, rollout_index, step_index), num_correct in counts.items():
        row = rows[problem_id, rollout_index]
        state = TruthState(
            checkpoint=checkpoint,
            rollout_iteration=iteration,
            problem_id=problem_id,
            rollout_index=rollout_index,
            step_index=step_index,
            num_steps=len(row["step_starts"]),
            prefix_length=row["step_starts"][step_index],
            response_length=len(row["response_ids"]),
            reward=row["reward"],
            num_samples=num_samples,
            num_correct=num_correct,
            num_truncated=0,
            num_tokens=10 * num_samples,
            draws_D=(),
        )
        states.append(state)
    table = truth_path(out, run_path, checkpoint)
    write_truth(table, states)
    return table


def add_critic(path, value):
    """The run's last values are a critic's, all the same, and none of continuations."""
    run_dir = RunDir(path)
    rows = run_dir.read_values(12)
    run_dir.write_values(12, [row | {"returns_K": [], "critic_value": value} for row in rows])


def steps_of(table):
    return {
        (problem["id"], response["index"], place): step
        for problem in table["problems"]
        for response in problem["responses"]
        for place, step in enumerate(response["steps"])
    }


def the_error(capsys, *arguments):
    """The one line of a report that must fail."""
    assert main(["report", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error.removeprefix("error: ")
