"""Reward models: from pairs to scores, as Hugging Face reads them, as critic and as reward."""

import json
import math
import random
import signal
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.critics import build_config, start, values
from support.processes import run, run_cli, run_ranks
from support.rollouts import CPU, rollout
from support.training import SHORT, assert_same_runs, timeless, train
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from vineppo.batching import collate
from vineppo.config.load import load_config
from vineppo.config.schema import LlamaArchitecture, TrainConfig
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.reward_scorer import SCORED, RewardModelReward, scored_sequence
from vineppo.recipes.sft import write_new_model
from vineppo.run_dir import RunDir
from vineppo.tools.evaluate import evaluate_run
from vineppo.tools.reward_model.train import pair_objective

TINY = LlamaArchitecture(
    hidden_size=64,
    intermediate_size=128,
    num_layers=2,
    num_heads=2,
    num_key_value_heads=2,
    max_position_embeddings=128,
)
NUM_TRAIN, NUM_TEST = 1500, 400


def quality(response: str) -> int:
    """The known order."""
    return response.count("7") - response.count("3")


def response(stream: random.Random) -> str:
    return "".join(stream.choices("0123456789", k=8))


def write_pairs(path: Path, number: int, seed: int) -> list[dict[str, str]]:
    """Responses of different quality, each preferred as Bradley and Terry say: with σ(lead)."""
    stream, rows = random.Random(seed), []
    while len(rows) < number:
        a, b = response(stream), response(stream)
        if quality(a) == quality(b):
            continue
        if stream.random() > 1 / (1 + math.exp(quality(b) - quality(a))):
            a, b = b, a
        rows.append({"prompt": f"{len(rows) % 10}+{seed}?", "chosen": a, "rejected": b})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A policy, and pairs for it."""
    folder = tmp_path_factory.mktemp("reward_model")
    write_new_model(TINY, folder / "policy", 0, build_tokenizer())
    write_pairs(folder / "train.jsonl", NUM_TRAIN, seed=1)
    write_pairs(folder / "test.jsonl", NUM_TEST, seed=2)
    return folder


def arguments(folder: Path, run_dir: Path, configs: Path) -> list[str]:
    pairs = {
        "kind": "jsonl",
        "train_path": str(folder / "train.jsonl"),
        "test_path": str(folder / "test.jsonl"),
        "num_test_pairs": NUM_TEST,
        "too_long": "refuse",
        "prompt": {"kind": "template", "template": "{question}\n"},
    }
    settings = {
        "model.path": str(folder / "policy"),
        "pairs": json.dumps(pairs),
        "optimization.learning_rate": 3e-3,
        "optimization.num_epochs": 3,
        "optimization.micro_batch_size": 48,
        "evaluation.every": 36,
        "checkpoint.every": 24,
        "logging.wandb_project": "null",
    }
    sets = [f"--set={key}={value}" for key, value in settings.items()]
    config = str(configs / "reward_model_arithmetic.jsonnet")
    return ["reward-model", config, f"--run-dir={run_dir}", *sets]


@pytest.fixture(scope="module")
def run_dir(folder, configs):
    done = run_cli(arguments(folder, folder / "run", configs))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def classifier(run_dir):
    path = str(run_dir / "final/reward_model")
    return AutoModelForSequenceClassification.from_pretrained(path).eval()


@torch.no_grad()
def hf_scores(classifier, texts: list[tuple[str, str]]) -> list[float]:
    """As anyone would ask: texts in a padded batch."""
    path = classifier.name_or_path
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="right")
    whole = [f"{prompt}\n{answer}<eos>" for prompt, answer in texts]
    batch = tokenizer(whole, return_tensors="pt", padding=True)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    return classifier(**inputs).logits.squeeze(-1).tolist()


def test_training_recovers_a_known_order(classifier):
    """Scores of responses that no pair held rise with their quality, and by as much."""
    stream = random.Random(9)
    texts = [("4+1?", response(stream)) for _ in range(200)]
    scores = torch.tensor(hf_scores(classifier, texts))
    order = torch.tensor([float(quality(answer)) for _, answer in texts])
    assert torch.corrcoef(torch.stack([scores, order]))[0, 1] > 0.9
    slope = ((scores - scores.mean()) * (order - order.mean())).mean() / order.var()
    assert 0.6 < slope < 1.5  # the pairs were drawn with a slope of 1


def test_held_out_pairs_are_told_apart_nearly_as_well_as_can_be(folder, run_dir):
    """The true order is right in about 86 % of pairs that were drawn at random by it."""
    start, middle, end = (RunDir(run_dir).read_evaluation(i) for i in (0, 36, 72))
    assert start["pair_accuracy"] == 0.5  # a head of zeros
    assert start["pair_log_loss"] == pytest.approx(math.log(2))
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    leads = [quality(row["chosen"]) - quality(row["rejected"]) for row in rows]
    best_accuracy = sum(lead > 0 for lead in leads) / NUM_TEST
    best_loss = sum(math.log1p(math.exp(-lead)) for lead in leads) / NUM_TEST
    assert best_accuracy > 0.8
    assert end["num_pairs"] == NUM_TEST
    assert end["pair_accuracy"] > best_accuracy - 0.04
    assert end["pair_log_loss"] < best_loss + 0.05
    assert end["pair_calibration_error"] < 0.08
    assert middle["pair_log_loss"] < math.log(2)
    rows = timeless(run_dir)
    assert len(rows) == 3 * math.ceil(NUM_TRAIN / 64)
    assert rows[0]["reward_model/loss"] == pytest.approx(math.log(2))
    assert rows[-1]["eval/pair_accuracy"] == end["pair_accuracy"]


def test_the_evaluation_is_of_the_scores_that_hugging_face_computes(folder, run_dir, classifier):
    """Padded batches of texts, no line of ours: the same accuracy and log loss."""
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    sides = [
        hf_scores(classifier, [(row["prompt"], row[side]) for row in rows])
        for side in ("chosen", "rejected")
    ]
    end = RunDir(run_dir).read_evaluation(72)
    leads = [a - b for a, b in zip(*sides, strict=True)]
    assert end["pair_accuracy"] == sum(lead > 0 for lead in leads) / NUM_TEST
    loss = sum(math.log1p(math.exp(-lead)) for lead in leads) / NUM_TEST
    assert end["pair_log_loss"] == pytest.approx(loss, abs=1e-5)
    config = json.loads((run_dir / "final/reward_model/config.json").read_text())
    assert "value_range" not in config
    assert config["architectures"] == ["LlamaForSequenceClassification"]


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_numbers(folder, run_dir, configs):
    again = folder / "again"
    given = arguments(folder, again, configs)
    done = run("support.training.main_killed_once", again / "checkpoints/iter_000024", given)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    done = run_cli(given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resumed after iteration 24" in done.stdout
    assert_same_runs(again, run_dir)
    assert "finished already" in run_cli(given).stdout


@pytest.mark.slow
def test_two_ranks_train_alike(folder, run_dir, configs):
    """The updates are equal until rounding has grown, and the end is as good."""
    run_ranks(2, "vineppo.cli.main", arguments(folder, folder / "ranks", configs))
    both = (timeless(path)[:8] for path in (folder / "ranks", run_dir))
    for ours, theirs in zip(*both, strict=True):
        assert ours["reward_model/loss"] == pytest.approx(theirs["reward_model/loss"], abs=1e-5)
    end, other = (RunDir(path).read_evaluation(72) for path in (folder / "ranks", run_dir))
    assert end["pair_accuracy"] == pytest.approx(other["pair_accuracy"], abs=0.02)


def test_what_needs_a_policy_says_that_there_is_none(run_dir):
    with pytest.raises(
        UserError, match=r"is a run of `vineppo reward-model`, which holds no polic"
    ):
        evaluate_run(run_dir, "last", [], [])


def test_a_critic_starts_with_its_head(run_dir, classifier, configs):
    """V(s) before the first update: the score of prompt and prefix, or its sigmoid."""
    path = str(run_dir / "final/reward_model")
    ids = (1, 5, 15, 6, 8, 11, 12, 9)
    sequence = scored_sequence(ids[:3], ids[3:], pad_id=0)
    for loss, read in (
        ({"kind": "squared_error", "clip": None}, lambda x: x),
        ({"kind": "cross_entropy", "low": 0.0, "high": 1.0}, torch.sigmoid),
    ):
        policy = str(run_dir.parent / "policy")
        config = build_config(
            configs, "separate", critic__path=path, critic__loss=loss, model__path=policy
        )
        values_BT = values(start(config), collate([sequence], CPU))
        for length in range(3, len(ids)):
            with torch.no_grad():
                score = classifier(input_ids=torch.tensor([ids[:length]])).logits[0, 0]
            assert values_BT[0, length].item() == pytest.approx(read(score).item(), abs=1e-5)


@pytest.mark.parametrize("output", ["score", "probability"])
def test_states_are_valued_by_their_scores(run_dir, classifier, configs, output):
    """V(s) of prompt and prefix, before every token."""
    path, ids = str(run_dir / "final/reward_model"), (5, 15, 6, 8, 11, 12, 9)
    predictors = {"process": {"kind": "reward_model", "path": path, "output": output}}
    policy = str(run_dir.parent / "policy")
    config = build_config(configs, "separate", values__predictors=predictors, model__path=policy)
    (process,) = (one for one in start(config).predictors if one.name == "process")
    some = [replace(rollout([0.0] * n), response_ids=ids[:n]) for n in (7, 3)]
    process.estimate(some)
    for one in some:
        for t, value in enumerate(one.values_T("process")):
            inputs = torch.tensor([(*one.prompt_ids, *one.response_ids[:t])])
            with torch.no_grad():
                score = classifier(input_ids=inputs).logits[0, 0]
            expected = score if output == "score" else torch.sigmoid(score)
            assert value == pytest.approx(expected.item(), abs=1e-5)


def test_micro_batches_add_up_to_the_mean_loss():
    """Rows are in turn chosen and rejected; a rank without a pair adds nothing."""
    scores = torch.tensor([1.0, 0.0, 0.5, 2.0, 3.0, 3.0])
    expected = (math.log1p(math.exp(-1)) + math.log1p(math.exp(1.5)) + math.log(2)) / 3
    for cuts in ([(0, 6)], [(0, 2), (2, 6)], [(0, 4), (4, 6), (6, 6)]):
        parts = [pair_objective(3, scores[a:b] if b > a else scores[:1])[1] for a, b in cuts]
        sums = [sum(part[name].item() for part in parts) for name in ("loss", "accuracy")]
        assert sums == pytest.approx([expected, 0.5])


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


def with_reward_model(config: TrainConfig, folder: Path, **changes: object) -> TrainConfig:
    own = {"weight": 0.25, "output": "score", "micro_batch_size": 3, **changes}
    model = replace(config.model, path=str(folder / "policy"))
    path = str(folder / "run/final/reward_model")
    return replace(config, model=model, reward_model=RewardModelReward("reward_model", path, **own))


@pytest.mark.parametrize("output", ["score", "probability"])
@pytest.mark.parametrize("weight", [0.25, 1.0])
def test_scores_join_the_verifiers_rewards(run_dir, classifier, config, output, weight):
    """Five responses of different lengths in batches of three, read in another order."""
    config = with_reward_model(config, run_dir.parent, output=output, weight=weight)
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
def test_a_score_that_is_not_finite_ends_the_run(run_dir, config, score):
    loaded = load_model(config.model.path, "float32", "sdpa")
    config = with_reward_model(config, run_dir.parent)
    scorer = config.reward_model.start(config, loaded)
    scorer._module.forward = lambda _: torch.tensor([score])
    reward = scorer.submit((1, 5), (4, 5, 2), resolved(1.0))
    with pytest.raises(UserError, match=rf"scores must be finite, got \[{score}\] by .*"):
        reward.result()


SETTINGS = {**SHORT, "num_iterations": 1, "credit.num_continuations": 2}


def test_a_run_is_rewarded_by_both_and_evaluated_by_the_verifier(run_dir, classifier, tmp_path):
    """VinePPO's continuations too; what the budget cut off gets `truncated_reward` alone."""
    own = {
        "kind": "reward_model",
        "path": str(run_dir / "final/reward_model"),
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
