"""Preference pairs: their forms, their token ids, what is held out, and what a bad row says."""

import json
from dataclasses import replace
from itertools import product

import datasets
import pytest
from support.processes import run_cli

from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import ChatPrompt, TemplatePrompt
from vineppo.errors import UserError
from vineppo.models import load_tokenizer
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.worded import WORDS
from vineppo.run_dir import RunDir
from vineppo.tools.reward_model.config import (
    HubPairs,
    JsonlPairs,
    RewardModelConfig,
    RolloutPairs,
    StatePairs,
)
from vineppo.tools.reward_model.pairs import Pair, draw_pairs, hold_out, load_pairs

TEMPLATE = TemplatePrompt("template", "{question}\n")
CHAT = ChatPrompt("chat", "{question}", None)
COMMON = {"num_test_pairs": 1, "too_long": "refuse"}
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '1' if m.role == 'user' else '0' }}={{ m.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}2={% endif %}"
)


@pytest.fixture(scope="module")
def base(configs):
    return load_config(RewardModelConfig, str(configs / "reward_model_arithmetic.jsonnet"), [])


@pytest.fixture
def tokenizer():
    return build_tokenizer()


def jsonl(path, rows, **changes):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = {"prompt": TEMPLATE, "margin_field": None, "test_path": None, **COMMON, **changes}
    return JsonlPairs(kind="jsonl", train_path=str(path), **own)


def row(question, chosen, rejected, **more):
    return {"prompt": question, "chosen": chosen, "rejected": rejected, **more}


def said(question, answer, *before):
    roles = ("user", "assistant")
    return [
        {"role": role, "content": text}
        for (role, text) in zip(roles * 3, (*before, question, answer), strict=False)
    ]


def texts(pair, tokenizer):
    return [
        tokenizer.decode((*prompt, *response)) for prompt, response in (pair.chosen, pair.rejected)
    ]


def test_texts_and_conversations_are_the_same_pairs(base, tokenizer, tmp_path):
    rows = [row("1+1?", "2", "3"), row("2+2?", "4", "5")]
    talk = [{side: said(r["prompt"], r[side]) for side in ("chosen", "rejected")} for r in rows]
    found = []
    for name, some in (("texts", rows), ("talk", talk)):
        config = replace(base, pairs=jsonl(tmp_path / f"{name}.jsonl", some))
        train, test = load_pairs(config, tokenizer)
        assert (len(train), len(test)) == (1, 1)
        found.append(sorted(texts(pair, tokenizer) for pair in (*train, *test)))
    assert found[0] == found[1]
    assert found[0][0] == ["<bos>1+1?\n2<eos>", "<bos>1+1?\n3<eos>"]


def test_names_of_special_tokens_in_a_row_are_text(base, tokenizer, tmp_path):
    rows = [row("1+<bos>1?", "2<eos>", "<pad>3"), row("2+2?", "4", "5")]
    train, test = load_pairs(replace(base, pairs=jsonl(tmp_path / "a.jsonl", rows)), tokenizer)
    for pair in (*train, *test):
        for prompt, response in (pair.chosen, pair.rejected):
            assert [i for i in (*prompt, *response) if i < tokenizer.unk_token_id] == [1, 2]
            assert (prompt[0], response[-1]) == (1, 2)


def test_a_test_file_is_cut_and_margins_are_read(base, tokenizer, tmp_path):
    rows = [row(f"{i}?", "2", "3", lead=i / 2) for i in range(4)]
    for name in ("train", "test"):
        own = jsonl(tmp_path / f"{name}.jsonl", rows, margin_field="lead", num_test_pairs=3)
    config = replace(base, pairs=replace(own, train_path=str(tmp_path / "train.jsonl"),
                                         test_path=str(tmp_path / "test.jsonl")))  # fmt: skip
    train, test = load_pairs(config, tokenizer)
    assert [pair.margin for pair in train] == [0.0, 0.5, 1.0, 1.5]
    assert [pair.name for pair in test] == [f"{tmp_path}/test.jsonl: row {n}" for n in (1, 2, 3)]


def test_hub_rows_of_several_turns_pass_the_chat_template(base, tokenizer, monkeypatch):
    """The form of Skywork-Reward-Preference and of the Tulu 3 mixtures."""
    rows = [
        {"chosen": said("2?", "4", "1?", "3"), "rejected": said("2?", "5", "1?", "3"), "id": "x"},
        {"chosen": said("7?", "8"), "rejected": said("7?", ""), "id": "y"},
    ]  # fmt: skip
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: asked.append((a, k)) or rows)
    tokenizer.chat_template = CHAT_TEMPLATE
    own = HubPairs(
        kind="hub", hub_path="a/b", hub_name=None, train_split="train", test_split=None,
        prompt=CHAT, margin_field=None, **COMMON,
    )  # fmt: skip
    train, test = load_pairs(replace(base, pairs=own), tokenizer)
    assert asked == [(("a/b", None), {"split": "train"})]
    # The template puts no special token behind an answer, so that the text's own ends it.
    assert sorted(texts(pair, tokenizer) for pair in (*train, *test)) == [
        ["1=1?\n0=3\n1=2?\n2=4<eos>", "1=1?\n0=3\n1=2?\n2=5<eos>"],
        ["1=7?\n2=8<eos>", "1=7?\n2=<eos>"],
    ]


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
    rows = [row("1?", "2", "3"), row("2?", "4", "5" * 200), row("3?", "4", "5")]
    own = jsonl(tmp_path / "pairs.jsonl", rows)
    with pytest.raises(UserError, match=r"pair .*pairs.jsonl: row 2 has 205 tokens, which must be"):
        load_pairs(replace(base, pairs=own), tokenizer)
    load_pairs(replace(base, pairs=replace(own, too_long="leave_out")), tokenizer)
    assert "left out 1 of 3 train pairs, longer than optimization.max_tokens = 128" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"prompt": "1?", "chosen": "2"}, "rejected must be a text or a list of messages, got the"),
        ({"prompt": "1?", "chosen": 2, "rejected": "3"}, "chosen must be a text or a list of mes"),
        ({"chosen": "2", "rejected": "3"}, "must have the field 'prompt'"),
        (
            {"chosen": [{"role": "me", "content": "2"}], "rejected": "3"},
            "chosen must hold messages",
        ),
        ({"chosen": said("1?", "2")[:1], "rejected": "3"}, "chosen must end with a message of the"),
        (
            {"chosen": said("2?", "4", "1?", "3"), "rejected": "3"},
            "pairs.prompt.kind must be 'chat' for a conversation of 4 messages, got 'template'",
        ),
        ({**row("1?", "2", "3"), "lead": -1}, "lead must be a number from 0 on, got -1"),
        ({**row("1?", "2", "3"), "lead": "much"}, "lead must be a number from 0 on, got much"),
    ],
)
def test_a_bad_row_is_one_line_that_names_it(base, tokenizer, tmp_path, bad, message):
    good = row("4?", "2", "3", lead=0)
    own = jsonl(tmp_path / "pairs.jsonl", [good, bad], margin_field="lead")
    with pytest.raises(UserError) as error:
        load_pairs(replace(base, pairs=own), tokenizer)
    assert str(error.value).startswith(f"{tmp_path}/pairs.jsonl: row 2: {message}")


def test_drawn_pairs_are_all_there_are_each_as_often():
    """Of the values 0, 0, ½, 1 and gap ½: ½ over two, 1 over three; one drawn of the five."""
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
    """A run of the demo's config with two problems: of one, right and wrong rollouts."""
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


def test_pairs_of_rollouts_are_right_against_wrong(base, run_dir):
    """A response counts once, and those of all iterations meet."""
    own = RolloutPairs(kind="rollouts", run_dirs=(str(run_dir),), pairs_per_problem=5, **COMMON)
    tokenizer = load_tokenizer(base.model.path, "model.path")
    train, test = load_pairs(replace(base, pairs=own), tokenizer)
    assert {(pair.name, pair.chosen, pair.rejected) for pair in (*train, *test)} == {
        ("p", ((1, 5), (6, 7, 2)), ((1, 5), (8, 7, 2))),
        ("q", ((1, 6), (7, 2)), ((1, 6), (9, 2))),
    }


def test_pairs_of_states_are_better_against_worse(base, run_dir):
    """Of p: the right one at 1, its first two tokens at ½; the wrong one and its first at 0."""
    own = StatePairs(
        kind="states", run_dirs=(str(run_dir),), pairs_per_problem=9, min_gap=0.5, **COMMON
    )
    tokenizer = load_tokenizer(base.model.path, "model.path")
    train, test = load_pairs(replace(base, pairs=own), tokenizer)
    found = {(p.chosen[1], p.rejected[1]) for p in (*train, *test) if p.name == "p"}
    right, half, first, wrong = (6, 7, 2), (6, 7), (8,), (8, 7, 2)
    assert found == {(right, half), *product((right, half), (first, wrong))}


def test_a_run_without_both_or_of_another_tokenizer_is_refused(base, run_dir):
    own = RolloutPairs(kind="rollouts", run_dirs=(str(run_dir),), pairs_per_problem=5, **COMMON)
    config = replace(base, pairs=own)
    with pytest.raises(UserError, match=r"pairs.run_dirs .*: its policy must have model.path's"):
        load_pairs(config, build_tokenizer(WORDS))
    (run_dir / "rollouts/iter_000002.parquet").unlink()
    (run_dir / "rollouts/iter_000001.parquet").unlink()
    with pytest.raises(UserError, match="no problem has right and wrong rollouts"):
        load_pairs(config, load_tokenizer(base.model.path, "model.path"))


def test_the_command_says_what_is_wrong_in_one_line(configs, tmp_path):
    config = str(configs / "reward_model_arithmetic.jsonnet")
    done = run_cli(["reward-model", config, f'--set=pairs.run_dirs=["{tmp_path / "no"}"]'])
    assert done.returncode == 2
    assert done.stderr == f"vineppo: not a run directory (no config.json): {tmp_path / 'no'}\n"
