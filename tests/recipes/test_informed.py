"""A critic's view: which tokens it sees, where, and that nothing but it depends on them."""

from dataclasses import replace

import pytest
import torch
from support.critics import build_config, critic_of, start

from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.informed import RolloutsInView, View, ViewConfig
from vineppo.rollouts import Prompt
from vineppo.train import load_models
from vineppo.types import Problem, Rollout
from vineppo.values import predictors_at

ANSWER = ViewConfig("{answer}\n", "before_prompt", None)
TOLD = {"critic__kind": "informed", "critic__view": {"template": "{answer}\n"}}
TOKENIZER = build_tokenizer()


def ids(text: str, begins: bool = False) -> tuple[int, ...]:
    return tuple(TOKENIZER(text, add_special_tokens=begins)["input_ids"])


def attempt(answer="40", index=0, response="4+6=0\n####0", reward=1.0, question="4+6?\n"):
    """A finished rollout with values and targets, of the problem with that answer."""
    response_ids = (*ids(response), TOKENIZER.eos_token_id)
    length = len(response_ids)
    return Rollout(
        problem=Problem(f"p{answer}", question, answer, solution="6+4=0"),
        rollout_index=index,
        prompt_ids=ids(question, begins=True),
        response_ids=response_ids,
        logprobs_T=(-1.0,) * length,
        finish_reason="stop",
        text=response,
        reward=reward,
        tokens_T={"values/critic": (0.5,) * length, "targets/critic": (reward,) * length},
    )


def prompt_text(view: ViewConfig, one: Rollout, *others: Rollout) -> str:
    (seen,) = View(view, TOKENIZER, "critic").of([one], [one, *others])
    assert seen.response_ids == one.response_ids
    assert seen.tokens_T is one.tokens_T
    return TOKENIZER.decode(seen.prompt_ids)


@pytest.fixture(scope="module")
def critics(configs):
    """One that sees the answer, and one that does not; their weights are the same."""
    return {
        is_told: critic_of(start(build_config(configs, "separate", **(TOLD if is_told else {}))))
        for is_told in (True, False)
    }


def values(critic, *rollouts):
    """As training estimates them."""
    found = [replace(rollout, tokens_T={}) for rollout in rollouts]
    critic.estimate(found)
    return [torch.tensor(rollout.values_T("critic")) for rollout in found]


def test_the_view_stands_before_the_prompt_or_before_the_response():
    one = attempt()
    assert prompt_text(ANSWER, one) == "<bos>40\n4+6?\n"
    assert prompt_text(replace(ANSWER, place="before_response"), one) == "<bos>4+6?\n40\n"
    # A prompt without the token that begins a text has none to stay in front.
    assert prompt_text(ANSWER, replace(one, prompt_ids=ids("4+6?\n"))) == "40\n4+6?\n"


def test_a_critic_that_is_told_the_answer_sees_it_and_no_other_does(critics):
    """The same tokens of two problems; the answer is all that tells them apart."""
    one, same, other = attempt("40"), attempt("40"), attempt("73")
    told_one, told_same, told_other = values(critics[True], one, same, other)
    torch.testing.assert_close(told_one, told_same, atol=1e-5, rtol=0)
    assert (told_one - told_other).abs().min() > 1e-4  # at every token
    blind_one, blind_other = values(critics[False], one, other)
    torch.testing.assert_close(blind_one, blind_other, atol=1e-5, rtol=0)


def test_values_are_those_of_the_state_behind_the_view(critics):
    """Every state passes by itself, as the critic without a view would read such a prompt."""
    one, other = attempt("40"), attempt("7", response="4+6=1\n")
    for rollout, found_T in zip((one, other), values(critics[True], one, other), strict=True):
        begun = (*ids(f"{rollout.problem.answer}\n", begins=True), *rollout.prompt_ids[1:])
        (expected_T,) = values(critics[False], replace(rollout, prompt_ids=begun))
        torch.testing.assert_close(found_T, expected_T, atol=1e-5, rtol=0)
        assert len(found_T) == len(rollout.response_ids)


def test_the_critic_of_a_checkpoint_has_the_view(configs, tmp_path):
    config = build_config(configs, "separate", **TOLD)
    models = start(config)
    critic_of(models).update([attempt("40"), attempt("7", reward=0.0)] * 8, 1)
    models.save_hf(tmp_path)
    expected = values(critic_of(models), attempt("40"), attempt("7"))
    found = values(predictors_at(config, tmp_path)[0], attempt("40"), attempt("7"))
    for found_T, expected_T in zip(found, expected, strict=True):
        torch.testing.assert_close(found_T, expected_T, atol=1e-5, rtol=0)
    starting = values(predictors_at(config, None)[0], attempt("40"), attempt("7"))
    assert (starting[0] - starting[1]).abs().max() > 1e-4


PERCENT = ViewConfig("{percent}=", "before_prompt", None)
OTHERS = ViewConfig(
    "{rollouts}?", "before_prompt", RolloutsInView(2, 3, "+{response}\n", "-{response}\n")
)


def group(*rewards):
    """Attempts at one problem, whose responses "0=0", "1=1", … tell their numbers."""
    return [attempt(index=n, response=f"{n}={n}", reward=r) for n, r in enumerate(rewards)]


def seen_texts(view, rollouts, branches=None):
    seen = View(view, TOKENIZER, "critic").of(branches or rollouts, rollouts)
    return [TOKENIZER.decode(one.prompt_ids).removesuffix("4+6?\n") for one in seen]


def test_the_solution_is_shown_and_must_be_there():
    view = ViewConfig("{answer}={solution}\n", "before_prompt", None)
    one = attempt()
    assert prompt_text(view, one) == "<bos>40=6+4=0\n4+6?\n"
    problem = replace(one.problem, solution=None)
    for call in (
        lambda: prompt_text(view, replace(one, problem=problem)),
        lambda: View(view, TOKENIZER, "critic").check([Prompt(problem, (1,))], 9, None),
    ):
        with pytest.raises(UserError) as error:
            call()
        assert str(error.value) == (
            "config: critic.view.template must do without {solution} where a problem has none, got "
            "p40"
        )


def test_the_expected_accuracy_is_that_of_the_others():
    """Rewards 1, 0, 1 and 0: two of three others for the wrong ones, one of three else."""
    expected = ["<bos>33=", "<bos>67=", "<bos>33=", "<bos>67="]
    assert seen_texts(PERCENT, group(1.0, 0.0, 1.0, 0.0)) == expected
    assert seen_texts(PERCENT, group(1.0)) == ["<bos>0="]  # as `group_mean` of one alone


def test_the_others_are_shown_in_turn_with_their_verdicts():
    """The last three tokens of the next two, without the one that ends a finished response."""
    rollouts = group(1.0, 0.0, 1.0)
    rollouts[2] = replace(rollouts[2], response_ids=ids("572=2"), finish_reason="length")
    zero, one, two = "+0=0\n", "-1=1\n", "+2=2\n"
    assert seen_texts(OTHERS, rollouts) == [
        f"<bos>{one}{two}?",
        f"<bos>{two}{zero}?",
        f"<bos>{zero}{one}?",
    ]
    other_problem = attempt("7", index=1)
    assert seen_texts(OTHERS, [*rollouts[:1], other_problem]) == ["<bos>?", "<bos>?"]


@pytest.mark.parametrize("view", [ANSWER, PERCENT, OTHERS])
def test_nothing_that_a_rollout_does_is_in_its_own_view(view):
    """Another response with another reward changes the others' views alone, if any."""
    before, after = group(1.0, 0.0, 1.0), group(1.0, 0.0, 1.0)
    after[1] = replace(attempt(index=1, response="9=9", reward=1.0))
    texts, changed = seen_texts(view, before), seen_texts(view, after)
    assert changed[1] == texts[1]
    assert (changed[0] != texts[0]) == view.has_siblings
    assert (changed[2] != texts[2]) == view.has_siblings


@pytest.mark.parametrize("view", [PERCENT, OTHERS])
def test_a_branch_has_the_view_of_the_rollout_that_it_leaves(view):
    rollouts = group(1.0, 0.0, 1.0)
    branches = [attempt(index=i, response="8", reward=float("nan")) for i in (1, 0, 1)]
    texts = seen_texts(view, rollouts)
    assert seen_texts(view, rollouts, branches) == [texts[1], texts[0], texts[1]]


def test_siblings_ids_are_never_tokenised_again():
    """ "####" as four tokens, which the tokenizer would make one."""
    rollouts = group(1.0, 1.0)
    hash_ids = (TOKENIZER.unk_token_id,) * 3
    rollouts[1] = replace(rollouts[1], response_ids=hash_ids, finish_reason="length")
    (seen, _) = View(OTHERS, TOKENIZER, "critic").of(rollouts, rollouts)
    assert seen.prompt_ids == (*ids("+", begins=True), *hash_ids, *ids("\n?4+6?\n"))


def test_the_longest_view_of_others_is_counted_in_full():
    """<bos>, 2 · (3 + 2) of others, "?", 5 of the prompt and 9 of the response."""
    view = View(OTHERS, TOKENIZER, "values.predictors.told")
    prompt = Prompt(attempt().problem, attempt().prompt_ids)
    view.check([prompt], 9, 1 + 10 + 1 + 5 + 9)
    with pytest.raises(UserError, match=r"predictors\.told\.view must leave .* 25 tokens, got 26"):
        view.check([prompt], 9, 25)


def test_a_critic_too_short_for_its_view_is_refused_before_it_trains(configs):
    long = TOLD | {"critic__view": {"template": "{answer}" * 99}}
    config = build_config(configs, "separate", **long)
    loaded = load_model(config.model.path, "float32", "sdpa")
    prompts_P = [Prompt(attempt().problem, attempt().prompt_ids)]
    # 2 · 99 of the view, 6 of the prompt and 64 of the response.
    with pytest.raises(UserError, match="the critic's 256 tokens, got 268 with problem p40"):
        load_models(config, loaded, prompts_P)
