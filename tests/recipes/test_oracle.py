"""The oracle of worded chains, on rollouts of the demonstrator at a skill of its own."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import log, prod
from operator import mul

import pytest
from support.task_configs import GRADING, worded_config
from support.walks import demo

from vineppo.recipes.arithmetic import build_tokenizer, evaluate
from vineppo.recipes.oracle import Oracle
from vineppo.recipes.worded import WORDS, ChainDemonstrator, WordedTask
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


SHEET = worded_config(
    layout="sheet", num_hard_steps=3, num_remarks=0, grading=replace(GRADING, num_matching=3)
)


def enumerated(task: WordedTask) -> list[tuple[float, Rollout]]:
    """Every response to a problem of a policy that errs by facts, with its probability."""
    demonstrator, is_chain = task.demonstrator(), task.layout == "chain"
    wrong = demonstrator.wrong_results
    skill = {fact: (1 + number) / (2 + len(wrong)) for number, fact in enumerate(wrong)}
    chain = next(iter(demonstrator.chains("train", 1)))
    answer, facts = demonstrator.answer(chain), demonstrator.facts(chain)

    def rollout_of(text: str, results: str, chances: list[float]) -> Rollout:
        ids = tuple(TOKENIZER(text, add_special_tokens=False)["input_ids"])
        texts = token_texts(TOKENIZER, ids)
        logprobs = [0.0] * len(ids)
        stated = [end for end, before in enumerate(accumulate(texts), 1) if before[-1] == "="]
        for place, chance in zip(stated, chances, strict=True):
            logprobs[place] = log(chance)
        is_right = sum(map(str.__eq__, answer, results)) >= (
            task.grading.num_matching or len(answer)
        )
        return Rollout(
            problem=Problem("p", chain.question, answer), rollout_index=0, prompt_ids=(1,),
            response_ids=ids, logprobs_T=tuple(logprobs), finish_reason="stop", text=text,
            reward=float(is_right), spans_S=LinesSegmenter("lines").spans(texts),
        )  # fmt: skip

    def written(results: str, text: str, chances: list[float]) -> Iterator[tuple[float, Rollout]]:
        number = len(results) - is_chain
        if number == len(facts):
            yield prod(chances), rollout_of(f"{text}####{results}", results, chances)
            return
        operation, left, right = facts[number]
        fact = operation, int(results[-1]) if is_chain else left, right
        result, p = evaluate(fact, task.modulus), skill.get(fact, 0.9)
        other = wrong.get(fact, (result + 1) % task.modulus)
        for stated, chance in ((result, p), (other, 1 - p)):
            line = f"so {fact[1]}{operation}{right}={stated}\n"
            yield from written(f"{results}{stated}", text + line, [*chances, chance])

    return list(written(answer[:is_chain], "", []))


@pytest.mark.parametrize("task", [worded_config(num_remarks=0), SHEET], ids=["chain", "sheet"])
def test_of_the_policy_values_are_those_of_all_its_continuations(task: WordedTask) -> None:
    options = Oracle.Config("oracle", of="policy")
    predictor = Oracle("oracle", replace(demo(), task=task), options)
    weights, sampled = zip(*enumerated(task), strict=True)
    assert sum(weights) == pytest.approx(1)
    predictor.estimate(sampled)
    expected = []
    for rollout in sampled:
        for span in rollout.spans_S:
            begun = rollout.response_ids[: span.start]
            rewards = [r.reward * (r.response_ids[: span.start] == begun) for r in sampled]
            like = [float(r.response_ids[: span.start] == begun) for r in sampled]
            expected.append(sum(map(mul, weights, rewards)) / sum(map(mul, weights, like)))
    assert len({round(value, 6) for value in expected}) > 4
    found = [value for rollout in sampled for value in rollout.values_S("oracle")]
    assert found == pytest.approx(expected)
