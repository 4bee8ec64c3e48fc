"""Rewards that a reward model's scores join."""

import json
import math
import random
from concurrent.futures import Future
from dataclasses import replace

import pytest
import torch
from support.critics import write_classifier
from support.training import SHORT, train
from transformers import AutoModelForSequenceClassification

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.reward_scorer import SCORED, RewardModelReward, scored_sequence
from vineppo.run_dir import RunDir


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A reward model with scores of a few units; `name_or_path` is its directory."""
    path = tmp_path_factory.mktemp("reward_model")
    write_classifier(path, mean=0.0, deviation=0.1)
    return AutoModelForSequenceClassification.from_pretrained(path).eval()


def test_a_response_is_read_at_its_last_token_that_is_no_padding():
    for response_ids, pad_id, place in (
        ((5, 7, 2), 0, 2), ((5, 7, 2), 2, 1), ((2, 7, 2, 2), 2, 1), ((2, 2), 2, 1),
    ):  # fmt: skip
        marks = scored_sequence((1,), response_ids, pad_id).tokens_T[SCORED]
        assert [i for i, is_scored in enumerate(marks) if is_scored] == [place]


def resolved(number: float) -> Future[float]:
    future: Future[float] = Future()
    future.set_result(number)
    return future


def with_reward_model(config, classifier, **changes):
    own = {"weight": 0.25, "output": "score", "micro_batch_size": 3, **changes}
    scorer = RewardModelReward("reward_model", classifier.name_or_path, **own)
    return replace(config, reward_model=scorer)


@pytest.mark.parametrize("output", ["score", "probability"])
@pytest.mark.parametrize("weight", [0.25, 1.0])
def test_scores_join_the_verifiers_rewards(classifier, config, output, weight):
    """Five responses of different lengths in batches of three, read in another order."""
    config = with_reward_model(config, classifier, output=output, weight=weight)
    loaded = load_model(config.model.path, "float32", "sdpa")
    scorer = config.reward_model.start(config, loaded)
    prompt, stream = (1, 5, 15, 14), random.Random(0)
    responses = [(*stream.choices(range(4, 14), k=n), 2) for n in (3, 9, 1, 5, 2)]
    verdicts = [1.0, 0.0, 1.0, 0.0, 1.0]
    rewards = [
        scorer.submit(prompt, ids, resolved(verdict))
        for ids, verdict in zip(responses, verdicts, strict=True)
    ]
    assert not rewards[0].done()
    for i in (3, 0, 1, 2, 4):
        with torch.no_grad():
            score = classifier(input_ids=torch.tensor([(*prompt, *responses[i])])).logits.item()
        said = score if output == "score" else 1 / (1 + math.exp(-score))
        expected = (1 - weight) * verdicts[i] + weight * said
        assert rewards[i].result() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("score", [torch.nan, torch.inf])
def test_a_score_that_is_not_finite_ends_the_run(classifier, config, score):
    loaded = load_model(config.model.path, "float32", "sdpa")
    config = with_reward_model(config, classifier)
    scorer = config.reward_model.start(config, loaded)
    scorer._module.forward = lambda _: torch.tensor([score])
    reward = scorer.submit((1, 5), (4, 5, 2), resolved(1.0))
    with pytest.raises(UserError, match=rf"scores must be finite, got \[{score}\] by .*"):
        reward.result()


SETTINGS = {**SHORT, "num_iterations": 1, "credit.num_continuations": 2}


def test_a_run_is_rewarded_by_both_and_evaluated_by_the_verifier(classifier, tmp_path):
    """VinePPO's continuations too; what the budget cut off gets `truncated_reward` alone."""
    own = {
        "kind": "reward_model",
        "path": classifier.name_or_path,
        **{"weight": 0.25, "output": "probability", "micro_batch_size": 8},
    }
    settings = {**SETTINGS, "reward_model": json.dumps(own), "sampling.max_tokens": 32}
    train(tmp_path / "run", settings=settings)
    rows = RunDir(tmp_path / "run").read_rollouts(1)
    assert {row["finish_reason"] for row in rows} == {"stop", "length"}
    for row in rows:
        if row["finish_reason"] == "length":
            assert row["reward"] == 0.0
            continue
        ids = torch.tensor([[*row["prompt_ids"], *row["response_ids"]]])
        with torch.no_grad():
            probability = torch.sigmoid(classifier(input_ids=ids).logits[0, 0]).item()
        verdict = (row["reward"] - 0.25 * probability) / 0.75
        assert min(abs(verdict), abs(verdict - 1)) < 1e-4
    returns = [r for state in RunDir(tmp_path / "run").read_values(1) for r in state["returns_K"]]
    assert any(0 < number < 1 for number in returns)
    evaluation = RunDir(tmp_path / "run").read_evaluation(0)
    assert evaluation["num_problems"] == 7


@pytest.mark.parametrize(
    ("leaf", "assignments", "message"),
    [
        ("demo_ppo", ['critic.loss={"kind": "cross_entropy", "low": 0, "high": 1}'],
         "reward_model.output must be 'probability' for critic.loss"),
        ("recipes/martingale", [],
         "reward_model.output must be 'probability' for values.predictors.posterior of kind"),
        ("recipes/oracle", [], "reward_model must be null for values.predictors.oracle"),
    ],
)  # fmt: skip
def test_combinations_that_make_no_sense_are_refused(configs, leaf, assignments, message):
    own = {"kind": "reward_model", "path": "x", "weight": 0.5} | {
        "output": "score", "micro_batch_size": 8
    }  # fmt: skip
    sets = [f"reward_model={json.dumps(own)}", *assignments]
    with pytest.raises(UserError, match=f"^config: {message}"):
        load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), sets)
