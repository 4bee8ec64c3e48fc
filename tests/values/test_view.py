"""A critic's view: which tokens it sees, where, and that nothing but it depends on them."""

from dataclasses import replace

import pytest
import torch
from support.critics import build_config, critic_of, start
from support.rollouts import CPU

from vineppo.batching import collate
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig, ViewConfig
from vineppo.errors import UserError
from vineppo.rollouts import Prompt
from vineppo.tasks.arithmetic_tokenizer import build_tokenizer
from vineppo.types import Problem, Rollout
from vineppo.values import predictors_at
from vineppo.values.view import View

ANSWER = ViewConfig("{answer}\n", "before_prompt", None)
TABLE = {"template": "{answer}\n", "place": "before_prompt", "rollouts": None}
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
        is_told: critic_of(
            start(build_config(configs, "separate", critic__view=TABLE if is_told else None))
        )
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


def test_positions_and_masks_of_a_batch_by_hand():
    """Prompts <bos> 1 and <bos> 1 2 with the answers 40 and 7: three and two more tokens."""
    long, short = attempt("40", response="3"), attempt("7", response="34", question="12")
    long.prompt_ids = ids("1", begins=True)
    rows = View(ANSWER, TOKENIZER, "critic").of([long, short], [long, short])
    batch = collate(rows, CPU, ["targets/critic"])
    bos, eos = TOKENIZER.bos_token_id, TOKENIZER.eos_token_id
    assert batch.token_ids_BT.tolist() == [
        [bos, *ids("40\n1"), *ids("3"), eos, 0],
        [bos, *ids("7\n12"), *ids("34"), eos],
    ]
    assert batch.response_mask_BT.int().tolist() == [
        [0, 0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1, 1, 1],
    ]
    assert batch.num_tokens == 7 + 8
    assert batch["targets/critic"].tolist() == batch.response_mask_BT.float().tolist()


def test_without_a_view_the_rollouts_are_passed_as_they_are():
    rollouts = [attempt()]
    assert View(None, None, "critic").of(rollouts, rollouts) is rollouts


def test_a_critic_that_is_told_the_answer_sees_it_and_no_other_does(critics):
    """The same tokens of two problems; the answer is all that tells them apart."""
    one, same, other = attempt("40"), attempt("40"), attempt("73")
    told_one, told_same, told_other = values(critics[True], one, same, other)
    torch.testing.assert_close(told_one, told_same, atol=1e-5, rtol=0)
    assert (told_one - told_other).abs().min() > 1e-4  # at every token
    blind_one, blind_other = values(critics[False], one, other)
    torch.testing.assert_close(blind_one, blind_other, atol=1e-5, rtol=0)


def test_values_are_those_of_the_state_behind_the_view(critics):
    """Of every state passed by itself, as the critic without a view would read such a prompt."""
    one, other = attempt("40"), attempt("7", response="4+6=1\n")
    for rollout, found_T in zip((one, other), values(critics[True], one, other), strict=True):
        begun = (*ids(f"{rollout.problem.answer}\n", begins=True), *rollout.prompt_ids[1:])
        (expected_T,) = values(critics[False], replace(rollout, prompt_ids=begun))
        torch.testing.assert_close(found_T, expected_T, atol=1e-5, rtol=0)
        assert len(found_T) == len(rollout.response_ids)


def test_company_and_micro_batches_do_not_matter(critics):
    rollouts = [attempt(str(10**n), response="4+6=0\n"[: n + 1]) for n in range(5)]
    together = values(critics[True], *rollouts)
    for rollout, found_T in zip(rollouts, together, strict=True):
        torch.testing.assert_close(values(critics[True], rollout)[0], found_T, atol=1e-5, rtol=0)


def test_a_critic_learns_what_only_its_view_tells(configs):
    """Returns that follow from the answer, of the very same tokens: its squared error of ½ · ¼."""
    rollouts = [attempt(answer, reward=float(answer < "5")) for answer in "12345678" * 2]
    losses = {}
    for is_told in (True, False):
        config = build_config(
            configs, "separate", critic__view=TABLE if is_told else None,
            critic__batch_size=16, critic__micro_batch_size=5, critic__head_init="zero",
        )  # fmt: skip
        critic = critic_of(start(config))
        losses[is_told] = [critic.update(rollouts, i)["critic/loss"] for i in range(1, 13)][-1]
    assert losses[False] > 0.12
    assert losses[True] < 0.03


def test_the_critic_of_a_checkpoint_has_the_view(configs, tmp_path):
    config = build_config(configs, "separate", critic__view=TABLE)
    models = start(config)
    critic_of(models).update([attempt("40"), attempt("7", reward=0.0)] * 8, 1)
    models.save_hf(tmp_path)
    expected = values(critic_of(models), attempt("40"), attempt("7"))
    found = values(predictors_at(config, tmp_path)[0], attempt("40"), attempt("7"))
    for found_T, expected_T in zip(found, expected, strict=True):
        torch.testing.assert_close(found_T, expected_T, atol=1e-5, rtol=0)
    starting = values(predictors_at(config, None)[0], attempt("40"), attempt("7"))
    assert (starting[0] - starting[1]).abs().max() > 1e-4


@pytest.mark.parametrize("leaf", ["credit_short_ppo_view", "credit_sheet_ppo_view"])
def test_the_views_of_the_embedded_tasks_fit(configs, leaf):
    """Beside the longest prompt and response; the tokenizer knows every token of the view."""
    config = load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), [])
    tokenizer = build_tokenizer("worded")
    assert tokenizer.unk_token_id not in tokenizer("0123456789\n")["input_ids"]
    view = View(config.critic.view, tokenizer, "critic")
    prompt = Prompt(Problem("p", "", "123456789"), tuple(tokenizer("1+2*3-4?\n")["input_ids"]))
    view.check([prompt], config.sampling.max_tokens, 256)
    longest = 10 + 10 + config.sampling.max_tokens  # <bos> and 9 of the prompt, 10 of the view
    view.check([prompt], config.sampling.max_tokens, longest)
    with pytest.raises(UserError) as error:
        view.check([prompt], config.sampling.max_tokens, longest - 1)
    assert str(error.value) == (
        "config: critic.view must leave prompt, view and response at most the critic's "
        f"{longest - 1} tokens, got {longest} with problem p"
    )
