"""Reward models: from pairs to scores, as Hugging Face reads them, as critic and as reward."""

import json
import math
import random
import signal
from pathlib import Path

import pytest
import torch
from support.critics import build_config, start, values
from support.processes import run, run_cli, run_ranks
from support.rollouts import CPU
from support.training import assert_same_runs, timeless
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from vineppo.batching import collate
from vineppo.config.schema import LlamaArchitecture
from vineppo.errors import UserError
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.reward_scorer import scored_sequence
from vineppo.recipes.sft import write_new_model
from vineppo.run_dir import RunDir
from vineppo.tools.evaluate_run import evaluate_run

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
