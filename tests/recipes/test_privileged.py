"""Values by a pointer into the true answer, on choices whose values are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.rollouts import rollout, terminal
from support.walks import demo
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from vineppo.recipes.choice_values import ChoiceBatch, Choices, Sample
from vineppo.recipes.privileged import Pointer, Privileged
from vineppo.types import Problem

OWN = Privileged.Config(
    kind="privileged", num_candidates=3, learning_rate=3e-3, weight_decay=0.05,
    num_steps=16, batch_size=32, replay_iterations=16,
)  # fmt: skip
HIDDEN, NUM_IDS = 4, 16


def digits() -> PreTrainedTokenizerFast:
    """A tokenizer of one token a digit."""
    backend = Tokenizer(WordLevel({str(digit): digit for digit in range(10)}, unk_token="0"))
    backend.pre_tokenizer = Split(Regex("."), behavior="isolated")
    return PreTrainedTokenizerFast(tokenizer_object=backend)


class World:
    """Rollouts of two choices between two digits, the right ones of which make the answer.

    Other facts in every problem: without the answer nothing could be learned.
    """

    def __init__(self, seed=0):
        self.draw = np.random.default_rng(seed)

    def rollouts(self, count):
        return [self.rollout() for _ in range(count)]

    def rollout(self):
        digits = np.stack([self.draw.permutation(10)[:3] for _ in range(2)])  # right, wrong, other
        is_right = self.draw.integers(2, size=2) == 1
        answer = "".join(map(str, digits[:, 0]))
        # Which stands first among the candidates says nothing.
        ids = np.where(self.draw.integers(2) == 1, digits, digits[:, [1, 0, 2]])
        chosen = np.where(is_right, digits[:, 0], digits[:, 1])
        found = rollout(terminal(float(is_right.all()), 4))
        found.problem = Problem("p", "?", answer)
        found.choices = Choices(
            positions_U=np.array([1, 2]),
            ids_UK=ids.astype(np.int32),
            logprobs_UK=np.log(np.tile(np.array([0.495, 0.495, 0.005], np.float32), (2, 1))),
            chosen_U=(ids == chosen[:, None]).argmax(1),
            steps_U=np.array([0, 1]),
            hidden_UH=self.draw.normal(size=(2, HIDDEN)).astype(np.float16),
            root_H=np.zeros(HIDDEN, np.float16),
        )
        return found


def predictor():
    made = Privileged("privileged", demo(), OWN)
    made._tokenizer = digits()
    made._build(HIDDEN, NUM_IDS)
    return made


@pytest.fixture(scope="module")
def trained():
    world, made = World(), predictor()
    for iteration in range(25):
        rollouts = world.rollouts(16)
        made.estimate(rollouts)
        made.update(rollouts, iteration)
    return made


def one_choice(step, is_right, probability=0.5):
    """A choice between token 7, the only one of the answer, and token 3."""
    choices = Choices(
        positions_U=np.array([step]), ids_UK=np.array([[7, 3]], np.int32),
        logprobs_UK=np.log(np.array([[probability, 1 - probability]], np.float32)),
        chosen_U=np.array([0 if is_right else 1]), steps_U=np.array([step]),
        hidden_UH=np.zeros((1, HIDDEN), np.float16), root_H=np.zeros(HIDDEN, np.float16),
    )  # fmt: skip
    return Sample(choices, (7,), "p", 0.5, float(is_right))


def certain(link):
    """A pointer that always looks somewhere."""
    model = Pointer(HIDDEN)
    with torch.no_grad():
        model.places.weight[:, -1] = -100.0
        model.link.copy_(torch.tensor(link))
    return model


def test_the_documented_value():
    """After 7 there is no miss, after 3 one: Δ = (σ(w_0) − σ(w_0 − exp w_2))/2 after 7."""
    batch = ChoiceBatch.of([one_choice(0, is_right=True)], torch.device("cpu"))
    with torch.no_grad():
        roots_B, differences_BU = certain([0.3, 0.0, 0.7, 0.0]).values(batch)
    right, wrong = (1 / (1 + np.exp(-x)) for x in (0.3, 0.3 - np.exp(0.7)))
    assert roots_B.tolist() == [0.5]
    assert differences_BU.tolist()[0] == pytest.approx([(right - wrong) / 2])


def test_differences_have_no_mean_under_the_policy(trained):
    """The sum over all tokens, each by its probability, whatever has been learned."""
    for one in World(1).rollouts(20):
        logprobs_L = np.append(one.choices.logprobs_UK[1], np.log(0.005))
        totals = []
        for chosen in range(4):
            one.choices.chosen_U[1] = chosen if chosen < 3 else -1
            batch = ChoiceBatch.of([trained._sample(one, 0.25)], torch.device("cpu"))
            with torch.no_grad():
                totals.append(trained._model.values(batch)[1][0, 1].item())
        assert np.exp(logprobs_L) @ totals == pytest.approx(0, abs=1e-6)


def test_few_rewards_teach_it_what_every_choice_is_worth(trained):
    tested = World(2).rollouts(200)
    trained.estimate(tested)
    for one in tested:
        before, _, second, last = one.values_T("privileged")
        assert before == pytest.approx(0.25, abs=0.1)
        assert last == pytest.approx(one.reward, abs=0.2)
        assert min(abs(second - value) for value in (0.0, 0.5)) < 0.2


def test_it_sees_the_answer_and_no_own_return(trained):
    one = World(3).rollout()
    trained.estimate([one])
    seen = one.values_T("privileged")
    one.reward = 1 - one.reward
    trained.estimate([one])
    assert one.values_T("privileged") == seen
    one.problem = replace(one.problem, answer=one.problem.answer[::-1])
    trained.estimate([one])
    assert one.values_T("privileged") != seen
