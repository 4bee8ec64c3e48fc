"""The parts of the comparison with TRL that need no TRL: protocol, translation, ratios."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.trl.protocol import Worker
from benchmarks.trl.translation import describe, grpo_arguments, num_updates
from benchmarks.trl_grpo import CONFIGS, ratios
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
while channel.wait():
    number += 1
    if number == 3:
        sys.exit("out of luck")
    print("more chatter")
    channel.say({"seconds": 0.5, "number": number})
"""


def started(program=SERVE):
    return Worker("test", [sys.executable, "-c", program], {})


def demo(*assignments):
    return load_config(TrainConfig, str(CONFIGS / "demo.jsonnet"), list(assignments))


def message(seconds, tokens):
    return {"seconds": seconds, "tokens": tokens}


def test_worker_runs_an_iteration_on_command_and_chatter_does_not_disturb_it():
    with started() as worker:
        worker.ready()
        assert worker.versions == {"version": "1"}
        for number in (1, 2):
            assert worker.iterate() == {"seconds": 0.5, "number": number}


def test_workers_last_words_are_in_the_error():
    with started() as worker:
        worker.ready()
        worker.iterate()
        worker.iterate()
        with pytest.raises(RuntimeError, match=r"test ended with status 1:(.|\n)*out of luck"):
            worker.iterate()


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


def test_the_ratio_is_of_seconds_per_token():
    found = ratios({"ours": [message(6, 300)], "trl": [message(12, 400)]})
    assert found["trl / ours, natural lengths"]["median"] == pytest.approx(1.5)
