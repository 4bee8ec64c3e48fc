"""The parts of the comparison with TRL that need no TRL: protocol, translation, ratios."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.trl.protocol import Worker
from benchmarks.trl.translation import describe, grpo_arguments, num_updates
from benchmarks.trl_grpo import (
    CONFIGS,
    ratios,
)
from vineppo.batching import minibatches
from vineppo.config.load import load_config, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.types import TokenSequence

SERVE = """
import sys
from benchmarks.trl.protocol import Channel
channel = Channel()
print("a library's chatter")
channel.say({"ready": {"version": "1"}})
number = 0
while (command := channel.wait()) is not None:
    number += 1
    if number == 3:
        sys.exit("out of luck")
    print("more chatter")
    channel.say({"seconds": 0.5, "number": number, **command})
"""


def started(program=SERVE):
    return Worker("test", [sys.executable, "-c", program], {})


def demo(*assignments):
    return load_config(TrainConfig, str(CONFIGS / "demo.jsonnet"), list(assignments))


def message(seconds, tokens):
    return {"seconds": seconds, "tokens": tokens}


def test_worker_runs_an_iteration_on_command_and_chatter_does_not_disturb_it():
    with started() as worker:
        assert worker.ready() == {"version": "1"}
        for number, is_profiled in enumerate((False, True), start=1):
            command = {"has_stops": is_profiled, "is_profiled": is_profiled}
            assert worker.iterate(**command) == {"seconds": 0.5, "number": number, **command}


def test_workers_last_words_are_in_the_error():
    with started() as worker:
        worker.ready()
        worker.iterate(has_stops=False)
        worker.iterate(has_stops=False)
        with pytest.raises(RuntimeError, match=r"test ended with status 1:(.|\n)*out of luck"):
            worker.iterate(has_stops=False)


def test_trl_makes_the_updates_that_we_make():
    config = demo("optimization.micro_batch_size=16")
    count = config.rollouts.num_prompts * config.rollouts.num_samples
    sequences = [TokenSequence((1, 2), (3,) * (1 + i % 7)) for i in range(count)]
    model = SimpleNamespace(device="cpu", packs=False)
    ours = list(minibatches(model, sequences, (), config.optimization, config, 1))
    theirs = grpo_arguments(config)
    micro, accumulated = (
        theirs["per_device_train_batch_size"],
        theirs["gradient_accumulation_steps"],
    )
    # TRL samples micro · steps_per_generation responses and passes num_iterations times over them.
    assert micro * theirs["steps_per_generation"] == count
    updates = theirs["num_iterations"] * theirs["steps_per_generation"] / accumulated
    assert updates == len(ours) == num_updates(config) == 8
    sizes = {sum(len(b.token_ids_BT) for b in part.micro_batches) for part in ours}
    assert sizes == {micro * accumulated}
    assert {part.learning_rate for part in ours} == {theirs["learning_rate"]}
    assert theirs["bf16"] is False


@pytest.mark.parametrize(
    "assignment",
    [
        "optimization.batch_size=96",
        "optimization.loss_aggregation=token_mean",
        "optimization.policy_loss=gspo",
        "optimization.resampling=best_worst",
        "reference.kl_estimator=k2",
        'credit={"kind": "rloo", "segmenter": {"kind": "lines"}}',
    ],
)
def test_what_trl_has_no_like_of_is_refused(assignment):
    with pytest.raises(UserError, match="to compare with TRL"):
        grpo_arguments(demo(assignment))


def test_prompts_of_trl_are_tokenised_to_ours():
    config = demo("rollouts.num_prompts=8")
    spec = describe(config, 3, Path("unused: the demo's config names its architecture"))
    tokenizer = load_model(config.model.path, "float32", "sdpa").tokenizer
    assert len(spec["prompts"]) == 24
    for row in spec["prompts"]:
        assert tuple(tokenizer(row["prompt"])["input_ids"]) == row["token_ids"]
    assert parse_config(TrainConfig, spec["config"]) == config


def test_ratio_of_equal_lengths_is_of_seconds_and_of_natural_ones_of_seconds_per_token():
    found = {
        "equal": {"ours": [message(6, 300)], "trl": [message(12, 300)]},
        "natural": {"ours": [message(6, 300)], "trl": [message(12, 400)]},
    }
    medians = {name: values["median"] for name, values in ratios(found).items()}
    assert medians == pytest.approx(
        {"trl / ours, equal lengths": 2, "trl / ours, natural lengths": 1.5}
    )


def test_unequal_work_is_an_error():
    found = {"equal": {"ours": [message(6, 300)], "trl": [message(6, 301)]}}
    with pytest.raises(RuntimeError, match=r"equally many tokens, got \[300, 301\]"):
        ratios(found)
