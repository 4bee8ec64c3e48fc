"""A language model's yes/no value: its state, its tokens, and that it learns."""

import pytest
import torch
from support.critics import build_config, start

from vineppo.config.load import evaluate_jsonnet
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.types import Problem, Rollout, StepSpan
from vineppo.values import predictors_at

TOKENIZER = build_tokenizer()
ASKED = {
    "kind": "yes_no", "loss": {"kind": "cross_entropy", "low": 0, "high": 1}, "head_init": "zero",
    "question": "=?", "yes": "1", "no": "0", "trained": True, "batch_size": 64,
}  # fmt: skip


def ids(text, begins=False):
    return tuple(TOKENIZER(text, add_special_tokens=begins)["input_ids"])


def attempt(response="4+6=0\n7+3=0\n", reward=1.0, answer="40"):
    """A rollout of two steps; the second begins behind the first line."""
    response_ids, second = ids(response), len(ids(response.partition("\n")[0] + "\n"))
    return Rollout(
        problem=Problem("p", "4+6?\n", answer),
        rollout_index=0,
        prompt_ids=ids("4+6?\n", begins=True),
        response_ids=response_ids,
        logprobs_T=(-1.0,) * len(response_ids),
        finish_reason="stop",
        text=response,
        reward=reward,
        spans_S=(StepSpan(0, second), StepSpan(second, len(response_ids))),
    )


def config_of(configs, **own):
    critic = evaluate_jsonnet(str(configs / "demo_ppo.jsonnet"))["critic"]
    judge = critic | ASKED | {"learning_rate": 1e-3} | own
    return build_config(configs, "separate", values__predictors={"judge": judge})


def judge_of(config):
    (found,) = (one for one in start(config).predictors if one.name == "judge")
    return found


def values(judge, *rollouts):
    judge.estimate(rollouts)
    return [rollout.values_S("judge") for rollout in rollouts]


def test_untrained_it_is_the_probability_of_yes_among_both(configs):
    """By the policy's own softmax after each bare prefix and the question."""
    one, other = attempt(), attempt("9-2=7\n1\n")
    policy = load_model("embedded:arithmetic_short", "float32", "sdpa").model
    yes, no = ids("1")[0], ids("0")[0]
    found = values(judge_of(config_of(configs)), one, other)
    for rollout, found_S in zip((one, other), found, strict=True):
        assert len(found_S) == 2
        for step, value in enumerate(found_S):
            asked = [*rollout.prompt_ids, *rollout.prefix_ids(step), *ids("=?")]
            with torch.no_grad():
                odds = policy(input_ids=torch.tensor([asked])).logits[0, -1].softmax(-1)
            assert value == pytest.approx((odds[yes] / (odds[yes] + odds[no])).item(), abs=1e-5)


def test_it_learns_what_the_first_step_decides(configs):
    """The value before the first step is the mean, behind it what it decided."""
    rollouts = [attempt("4+6=0\n1\n"), attempt("4+6=1\n1\n", reward=0.0)] * 8
    judge = judge_of(config_of(configs))
    for iteration in range(1, 21):
        judge.estimate(rollouts)
        judge.prepare_update(rollouts)
        metrics = judge.update(rollouts, iteration)
    assert metrics["values/judge/loss"] < 0.5  # ½ log 2 = 0.35 of the states that know nothing
    right, wrong = values(judge, *rollouts[:2])
    assert right[0] == pytest.approx(0.5, abs=0.2)
    assert right[1] > 0.9
    assert wrong[1] < 0.1


def test_zero_shot_it_is_its_weights_and_nothing_of_it_is_saved(configs, tmp_path):
    config = config_of(configs, trained=False)
    judge = judge_of(config)
    assert judge.num_weights
    assert not hasattr(judge, "deepspeed")
    judge.save_hf(tmp_path / "judge")
    assert not list(tmp_path.iterdir())
    (found,) = (one for one in predictors_at(config, tmp_path) if one.name == "judge")
    assert values(found, attempt()) == values(judge, attempt())


def test_a_checkpoint_asks_the_same(configs, tmp_path):
    config = config_of(configs)
    rollouts = [attempt(), attempt("9-2=7\n1\n", reward=0.0)]
    judge = judge_of(config)
    untrained = values(judge, *rollouts)
    judge.prepare_update(rollouts)
    judge.update(rollouts, 1)
    judge.save_hf(tmp_path / "judge")
    expected = values(judge, *rollouts)
    assert expected[0] != pytest.approx(untrained[0], abs=1e-3)
    for directory, of_it in ((tmp_path, expected), (None, untrained)):
        (found,) = (one for one in predictors_at(config, directory) if one.name == "judge")
        for found_S, expected_S in zip(values(found, *rollouts), of_it, strict=True):
            assert found_S == pytest.approx(expected_S, abs=1e-5)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"yes": "12"}, "values.predictors.judge.yes must be one token"),
        ({"no": "1"}, "values.predictors.judge.no must be another token"),
        (
            {"loss": {"kind": "squared_error", "clip": None}},
            "values.predictors.judge.loss must be of kind 'cross_entropy'",
        ),
    ],
)
def test_what_is_no_question_is_refused(configs, own, said):
    with pytest.raises(UserError, match=said):
        judge_of(config_of(configs, **own))


@pytest.mark.parametrize("odd", ["final_logit_softcapping", "a bias of the output"])
def test_logits_that_are_not_the_heads_products_are_refused(configs, monkeypatch, odd):
    def loaded(*arguments):
        found = load_model(*arguments)
        head = found.model.get_output_embeddings()
        if odd == "final_logit_softcapping":
            found.model.config.final_logit_softcapping = 30.0
        else:
            head.bias = torch.nn.Parameter(torch.zeros(head.out_features))
        return found

    monkeypatch.setattr("vineppo.recipes.yes_no.load_model", loaded)
    with pytest.raises(UserError, match=f"a yes/no value does not support {odd}"):
        judge_of(config_of(configs))
