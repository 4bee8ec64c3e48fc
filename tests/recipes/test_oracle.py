"""The oracle of worded chains, on rollouts of the demonstrator at a skill of its own."""

from dataclasses import replace

import pytest
from support.task_configs import worded_config
from support.walks import demo

from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.oracle import Oracle
from vineppo.recipes.worded import WORDS, ChainDemonstrator
from vineppo.segment import LinesSegmenter, token_texts
from vineppo.types import Problem, Rollout

CONFIG = worded_config(num_operations=3, num_hard_steps=1)
TOKENIZER = build_tokenizer(WORDS)
OWN = Oracle.Config("oracle", half_life=50)


def oracle() -> Oracle:
    return Oracle("oracle", replace(demo(), task=CONFIG), OWN)


def rollouts(wrong_probability: float, count: int) -> list[Rollout]:
    """Rollouts of a policy that learned from CONFIG's demonstrator and errs as often as given."""
    demonstrator = ChainDemonstrator(replace(CONFIG, wrong_probability=wrong_probability))
    cut = LinesSegmenter("lines")
    made = []
    for index, chain in enumerate(demonstrator.chains("train", count)):
        text = demonstrator.solution(chain)
        ids = tuple(TOKENIZER(text, add_special_tokens=False)["input_ids"])
        answer = demonstrator.answer(chain)
        made.append(
            Rollout(
                problem=Problem(f"p{index}", chain.question, answer), rollout_index=0,
                prompt_ids=(1,), response_ids=ids, logprobs_T=(0.0,) * len(ids),
                finish_reason="stop", text=text, reward=float(text.endswith(f"####{answer}")),
                spans_S=cut.spans(token_texts(TOKENIZER, ids)),
            )
        )  # fmt: skip
    return made


def test_values_are_the_demonstrators_before_anything_is_measured() -> None:
    demonstrator, predictor = ChainDemonstrator(CONFIG), oracle()
    sampled = rollouts(0.5, 20)
    predictor.estimate(sampled)
    for rollout in sampled:
        lines = rollout.text.split("\n")[:-1]
        prefixes = ["".join(f"{line}\n" for line in lines[:n]) for n in range(len(lines))]
        assert len(prefixes) == len(rollout.spans_S)
        chain = next(
            c for c in demonstrator.chains("train", 20) if c.question == rollout.problem.question
        )
        expected = [demonstrator.value(chain, prefix) for prefix in prefixes]
        assert list(rollout.values_S("oracle")) == pytest.approx(expected)
        assert 0.5 in expected
        assert expected[-1] == rollout.reward


def test_it_learns_the_policys_skill_from_what_rollouts_met() -> None:
    predictor = oracle()
    metrics = predictor.update(rollouts(0.1, 2000), 1)
    assert metrics["values/oracle/skill"] == pytest.approx(0.9, abs=0.04)
    sampled = rollouts(0.1, 40)
    predictor.estimate(sampled)
    assert sum(r.values_S("oracle")[0] for r in sampled) / 40 == pytest.approx(0.9, abs=0.05)


def test_what_it_measured_is_kept(tmp_path) -> None:
    predictor = oracle()
    predictor.update(rollouts(0.2, 100), 1)
    predictor.save_hf(tmp_path / "oracle")
    sampled, again = rollouts(0.5, 10), rollouts(0.5, 10)
    predictor.estimate(sampled)
    kept = Oracle.at_checkpoint("oracle", replace(demo(), task=CONFIG), OWN, tmp_path)
    assert kept is not None
    kept.estimate(again)
    assert [r.values_S("oracle") for r in sampled] == [r.values_S("oracle") for r in again]
