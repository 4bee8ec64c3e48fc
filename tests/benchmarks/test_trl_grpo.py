"""The parts of the comparison with TRL that need no TRL: protocol, translation, ratios."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness import NUM_RUNS, Options
from benchmarks.trl.operations import PHASE, by_phase
from benchmarks.trl.protocol import Worker
from benchmarks.trl.translation import describe, grpo_arguments, num_updates
from benchmarks.trl_grpo import (
    CONFIGS,
    grpo_config,
    micro_batch_sizes,
    num_iterations,
    ratios,
    write_spec,
)
from benchmarks.workload import NUM_PROBLEMS
from vineppo.config.load import load_config, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.minibatches import minibatches
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


def test_trl_is_tried_with_micro_batches_that_make_the_same_updates(tmp_path):
    config = demo("optimization.micro_batch_size=8")
    assert micro_batch_sizes(config) == [64, 32, 16, 8]
    for size in micro_batch_sizes(config):
        path = write_spec({"num_iterations": 3}, config, size, tmp_path)
        spec = json.loads(path.read_text())
        found = spec["arguments"]
        assert spec["num_iterations"] == 3
        assert found["per_device_train_batch_size"] == size
        assert size * found["gradient_accumulation_steps"] == 64
        assert size * found["steps_per_generation"] == 256


@pytest.mark.parametrize(
    "assignment",
    [
        "optimization.batch_size=96",
        "optimization.micro_batch_size=24",
        "optimization.loss_aggregation=token_mean",
        "optimization.whiten_advantages=true",
        "optimization.policy_loss=gspo",
        "optimization.mask_equal_rewards=true",
        "optimization.resampling=best_worst",
        "optimization.warmup_fraction=0.1",
        "reference.kl_estimator=k2",
        "reference.kl_aggregation=sequence_sum",
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


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("kind", ["demo", "model", "model_cpu"])
def test_configs_of_the_comparison_can_be_translated(is_quick, kind, tmp_path):
    if kind == "demo":
        config = grpo_config(Options(is_quick, None, None), tmp_path)
    else:
        config = load_config(TrainConfig, str(CONFIGS / f"{kind}.jsonnet"), [])
    assert num_updates(config) >= 2
    assert grpo_arguments(config)["beta"] == config.reference.kl_coef > 0
    num_problems = NUM_PROBLEMS if kind != "demo" else config.task.num_train_problems
    assert num_iterations(1 if is_quick else NUM_RUNS) * config.rollouts.num_prompts <= num_problems


def test_own_seconds_of_a_phase_are_those_between_its_marks():
    mark = PHASE + "update"
    events = [
        ("aten::mm", 0.5, 9.0),  # before the first mark
        (mark, 1.0, 0.0), ("aten::mm", 2.0, 0.5), ("aten::mm", 3.0, 0.25),
        (PHASE + "scoring", 4.0, 0.0), ("aten::add", 4.5, 0.5),
        (mark, 6.0, 0.0), ("aten::mm", 6.5, 0.25), (PHASE + "all", 7.0, 0.0),
    ]  # fmt: skip
    found = {
        phase: {kind: s for kind, s in seconds.items() if s}
        for phase, seconds in by_phase(reversed(events)).items()
    }
    assert found == {
        "update": {"products": 1.0, "outside operations": 3.0, "all": 4.0},
        "scoring": {"other operations": 0.5, "outside operations": 1.5, "all": 2.0},
    }


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
