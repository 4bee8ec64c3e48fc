"""Preference pairs: their token ids, what is held out, and what a bad row says."""

import json
from dataclasses import replace
from itertools import product

import pytest

from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TemplatePrompt
from vineppo.errors import UserError
from vineppo.models import load_tokenizer
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.worded import WORDS
from vineppo.run_dir import RunDir
from vineppo.tools.reward_model.config import JsonlPairs, RewardModelConfig, RunPairs
from vineppo.tools.reward_model.pairs import Pair, draw_pairs, hold_out, load_pairs

COMMON = {"num_test_pairs": 1, "too_long": "refuse"}


@pytest.fixture(scope="module")
def base(configs):
    return load_config(RewardModelConfig, str(configs / "reward_model_arithmetic.jsonnet"), [])


@pytest.fixture
def tokenizer():
    return build_tokenizer()


def jsonl(path, rows, **changes):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompt = TemplatePrompt("template", "{question}\n")
    settings = {"prompt": prompt, "test_path": None, **COMMON, **changes}
    return JsonlPairs(kind="jsonl", train_path=str(path), **settings)


def row(question, chosen, rejected):
    return {"prompt": question, "chosen": chosen, "rejected": rejected}


def test_names_of_special_tokens_in_a_row_are_text(base, tokenizer, tmp_path):
    rows = [row("1+<bos>1?", "2<eos>", "<pad>3"), row("2+2?", "4", "5")]
    train, test = load_pairs(replace(base, pairs=jsonl(tmp_path / "a.jsonl", rows)), tokenizer)
    assert (len(train), len(test)) == (1, 1)
    for pair in (*train, *test):
        for prompt, response in (pair.chosen, pair.rejected):
            assert [i for i in (*prompt, *response) if i < tokenizer.unk_token_id] == [1, 2]
            assert (prompt[0], response[-1]) == (1, 2)


def test_a_test_file_is_cut(base, tokenizer, tmp_path):
    rows = [row(f"{i}?", "2", "3") for i in range(4)]
    test_path = tmp_path / "test.jsonl"
    jsonl(test_path, rows)
    pairs = jsonl(tmp_path / "a.jsonl", rows, num_test_pairs=3, test_path=str(test_path))
    train, test = load_pairs(replace(base, pairs=pairs), tokenizer)
    assert tokenizer.decode([i for part in train[0].chosen for i in part]) == "<bos>0?\n2<eos>"
    assert [pair.name for pair in test] == [f"{test_path}: row {n}" for n in (1, 2, 3)]


def test_no_prompt_is_in_both_sets():
    """Seven prompts of three pairs: four pairs are held out by two whole prompts."""
    pairs = [Pair(f"{p}/{i}", ((p,), (i,)), ((p,), (9,))) for p, i in product(range(7), range(3))]
    train, test = hold_out(pairs, 4, seed=1)
    assert (len(train), len(test)) == (15, 6)
    assert not {pair.chosen[0] for pair in train} & {pair.chosen[0] for pair in test}
    assert sorted(pair.name for pair in (*train, *test)) == sorted(pair.name for pair in pairs)
    assert hold_out(pairs, 4, seed=1) == (train, test)
    assert any(hold_out(pairs, 4, seed=seed)[1] != test for seed in range(2, 6))
    with pytest.raises(UserError, match=r"must leave pairs to train on, of 21 pairs of 7 prompts"):
        hold_out(pairs, 19, seed=1)


def test_a_long_pair_is_refused_or_left_out(base, tokenizer, tmp_path, capsys):
    pairs = jsonl(tmp_path / "pairs.jsonl", [row(f"{n}?", "2", "3" * n) for n in (1, 200, 3)])
    with pytest.raises(UserError, match=r"pair .*pairs.jsonl: row 2 has 207 tokens, which must be"):
        load_pairs(replace(base, pairs=pairs), tokenizer)
    load_pairs(replace(base, pairs=replace(pairs, too_long="leave_out")), tokenizer)
    assert "left out 1 of 3 train pairs, longer than optimization.max_tokens = 128" in (
        capsys.readouterr().out
    )


def test_a_bad_row_is_one_line_that_names_it(base, tokenizer, tmp_path):
    pairs = jsonl(tmp_path / "pairs.jsonl", [row("4?", "2", "3"), {"prompt": "1?", "chosen": "2"}])
    with pytest.raises(UserError, match=r"pairs.jsonl: row 2: must have the field 'rejected'"):
        load_pairs(replace(base, pairs=pairs), tokenizer)


def test_drawn_pairs_are_all_there_are_each_as_often():
    """Values 0, 0, ½, 1 and gap ½: ½ over two, 1 over three; one drawn of the five."""
    values = {((1,), (n,)): value for n, value in enumerate((0.0, 0.0, 0.5, 1.0))}
    expected = {
        (better, worse)
        for better, worse in product(values, values)
        if values[better] - values[worse] >= 0.5
    }
    assert len(expected) == 5
    assert set(draw_pairs(values, 0.5, 99, seed=0)) == expected
    counts = dict.fromkeys(expected, 0)
    for seed in range(2000):
        (pair,) = draw_pairs(values, 0.5, 1, seed)
        counts[pair] += 1
    assert all(abs(count - 400) < 4 * 18 for count in counts.values())  # √(2000 · 0.2 · 0.8) = 17.9


@pytest.fixture
def run_dir(tmp_path, config):
    """A run of the demo's config with two problems, one with right and wrong rollouts."""
    run = RunDir.open(tmp_path / "run", to_dict(config))

    def rollout(problem, index, prompt_ids, response_ids, reward):
        return {
            "problem_id": problem, "rollout_index": index, "prompt_ids": prompt_ids,
            "response_ids": response_ids, "logprobs": [0.0] * len(response_ids), "text": "",
            "reward": reward, "finish_reason": "stop", "step_starts": [0], "advantages_S": [0.0],
        }  # fmt: skip

    def state(index, prefix_length, returns_K):
        return {
            "problem_id": "p", "rollout_index": index, "step_index": 0, "num_tokens": 0,
            "prefix_length": prefix_length, "returns_K": returns_K, "critic_value": None,
        }  # fmt: skip

    rows = [("p", 0, [1, 5], [6, 7, 2], 1.0), ("p", 1, [1, 5], [8, 7, 2], 0.0),
            ("p", 2, [1, 5], [6, 7, 2], 1.0), ("q", 0, [1, 6], [9, 2], 0.0)]  # fmt: skip
    run.write_rollouts(1, [rollout(*row) for row in rows])
    run.write_rollouts(2, [rollout("q", 0, [1, 6], [7, 2], 1.0)])
    run.write_values(1, [state(0, 0, [1.0]), state(0, 2, [1.0, 0.0]), state(1, 1, [0.0, 0.0])])
    return run.path


RIGHT, HALF, FIRST, WRONG = (6, 7, 2), (6, 7), (8,), (8, 7, 2)


@pytest.mark.parametrize(
    ("kind", "min_gap", "expected"),
    [
        ("rollouts", 1.0, {(RIGHT, WRONG)}),  # equal responses count once
        # Values: the right response 1, its first two tokens ½, the wrong one and its first token 0.
        ("states", 0.5, {(RIGHT, HALF), *product((RIGHT, HALF), (FIRST, WRONG))}),
    ],
)
def test_pairs_of_runs_are_better_against_worse(base, run_dir, kind, min_gap, expected):
    pairs = RunPairs(
        kind=kind, run_dirs=(str(run_dir),), pairs_per_problem=9, min_gap=min_gap, **COMMON
    )
    tokenizer = load_tokenizer(base.model.path, "model.path")
    train, test = load_pairs(replace(base, pairs=pairs), tokenizer)
    found = {(p.name, p.chosen[1], p.rejected[1]) for p in (*train, *test)}
    assert found == {("p", *pair) for pair in expected} | {("q", (7, 2), (9, 2))}


def test_a_run_without_both_or_of_another_tokenizer_is_refused(base, run_dir):
    pairs = RunPairs(kind="rollouts", run_dirs=(str(run_dir),), pairs_per_problem=5, **COMMON)
    config = replace(base, pairs=pairs)
    with pytest.raises(UserError, match=r"pairs.run_dirs .*: its policy must have the tokenizer"):
        load_pairs(config, build_tokenizer(WORDS))
    (run_dir / "rollouts/iter_000002.parquet").unlink()
    (run_dir / "rollouts/iter_000001.parquet").unlink()
    with pytest.raises(UserError, match="no problem has rollouts whose values differ by 1"):
        load_pairs(config, load_tokenizer(base.model.path, "model.path"))
