"""Whole runs through the embedded environment: trained, gone on with, evaluated, analysed."""

import json
from dataclasses import replace

import pytest
from pyarrow.parquet import read_table
from support.drills import MODEL as DRILL_MODEL
from support.drills import drill, drill_problem, ids
from support.grids import grid
from support.page import DOCS, page_files
from support.processes import run_module
from support.random_walk import TOKENIZER
from support.training import SHORT, assert_same_runs, train, train_killed_once

from analysis.sampling.rollouts import read_saved
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.run_dir import RunDir
from vineppo.tasks.environments import Episode, build_environment

GIGPO = {key: value for key, value in SHORT.items() if not key.startswith("credit.")}
# A critic, and GAE over turns.
PPO = GIGPO | {
    "task.environment": json.dumps({"kind": "drill", "max_turn_tokens": 4}),
    "credit.segmenter": json.dumps({"kind": "turns"}),
    "credit.level": "step",
    "credit.policy_lambda": 0.9,
    "critic.batch_size": 10,
    "critic.micro_batch_size": 3,
}


def metrics(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def vineppo_run(whole_runs):
    return whole_runs("recipes/drill", SHORT)


@pytest.mark.parametrize(
    ("leaf", "settings"),
    grid(("recipes/drill", SHORT), ("demo_ppo", PPO), slow=[("recipes/gigpo", GIGPO)]),
)
def test_it_trains(whole_runs, leaf, settings):
    rows = metrics(whole_runs(leaf, settings))
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert row["rollout/engine_logprob_gap_max"] < 1e-3
        assert row["policy/grad_norm"] > 0
        assert row["policy/trained_frac"] == 1
        assert 3 < row["rollout/turns_mean"] < 7
        assert 0.5 < row["rollout/observed_frac"] < 0.7
        num_tokens = 15 * row["rollout/response_length_mean"]
        assert row["tokens/rollout"] == pytest.approx(
            (1 - row["rollout/observed_frac"]) * num_tokens
        )


@pytest.mark.slow
def test_a_kill_changes_nothing(vineppo_run, tmp_path):
    run_dir = tmp_path / "killed"
    train_killed_once("rollouts/iter_000002.parquet", run_dir, "recipes/drill", SHORT)
    assert "resumed after iteration 1" in train(run_dir, "recipes/drill", SHORT)
    assert_same_runs(run_dir, vineppo_run)


def test_what_is_saved_can_be_acted_out_again(vineppo_run):
    tokenizer = build_tokenizer()
    rows = RunDir(vineppo_run).read_rollouts(1)
    problems = {}
    for row in rows:
        question = tokenizer.decode(row["prompt_ids"][1:]).partition("\n")[0]
        problems[row["problem_id"]] = replace(drill_problem(question), id=row["problem_id"])
    saved = read_saved(vineppo_run, 1, problems.__getitem__)
    assert len(saved) == 15
    for one in saved:
        assert [turn.start for turn in one.turns] == [span.start for span in one.spans_S]
        assert one.reward == pytest.approx(sum(turn.reward for turn in one.turns))
        episode_ids = []
        environment = drill()
        assert tokenizer.decode(one.prompt_ids).endswith(
            "\n" + tokenizer.decode(environment.reset(one.problem).token_ids)
        )
        for turn in one.turns:
            action_ids = one.response_ids[turn.start : turn.end]
            episode_ids += [*action_ids, *environment.step(action_ids).token_ids]
        assert tuple(episode_ids) == one.response_ids


def test_ground_truth_plays_on_through_the_environment(vineppo_run, tmp_path):
    options = ["--checkpoints=0", "--states=6", "--samples=24", f"--out={tmp_path}"]
    done = run_module("analysis", ["ground-truth", str(vineppo_run), *options])
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = tmp_path.glob("**/*.parquet")
    rows = read_table(table).to_pylist()
    prefixes = {(row["problem_id"], row["prefix_length"]) for row in rows}
    assert len(prefixes) >= 6
    assert all(row["prefix_length"] == 6 * row["step_index"] for row in rows)
    assert {True, False} == {0 < row["num_correct"] < 24 for row in rows} | {False}


def test_the_calculator_of_the_page(tmp_path, configs, monkeypatch):
    """It writes right results behind the policy's operations, and rewards the answer alone."""
    page = DOCS / "environments.md"
    (tmp_path / "mine").mkdir()
    for path, code in page_files(page).items():
        (tmp_path / path).write_text(code)
    (tmp_path / "configs").symlink_to(configs)
    monkeypatch.chdir(tmp_path)
    assert "vineppo train mine/calculator.jsonnet\n" in page.read_text()
    task = load_config(TrainConfig, "mine/calculator.jsonnet", []).task
    environment = build_environment(task, TOKENIZER, DRILL_MODEL)
    for said, reward in (("####5<eos>", 1.0), ("####6<eos>", 0.0)):
        one = Episode(environment, drill_problem("4+6-5?"), 64)
        for operation, result in (("4+6=", "0"), ("\n0-5=", "5"), ("\n3*9=", "7")):
            one.act(ids(operation), "stop")
            assert TOKENIZER.decode(one.response_ids[-1:]) == result
        one.act(ids(said), "stop")
        assert (one.finish_reason, one.reward) == ("stop", reward)
