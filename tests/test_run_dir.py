"""Run directories: what is written is read back, and no crash or full disk leaves half a file."""

import doctest
import logging
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.small_disk import in_small_tmpfs

from vineppo import run_dir
from vineppo.errors import UserError
from vineppo.metrics import rollout_rows, value_rows
from vineppo.progress import log_to
from vineppo.run_dir import RunDir, config
from vineppo.run_dir.environment import describe_source
from vineppo.types import CRITIC, MONTE_CARLO, Problem, Rollout, StateValue, StepSpan

CONFIG = {
    "name": "x",
    "num_iterations": 10,
    "optimization": {"learning_rate": 1e-5, "betas": [0.9, 0.999]},
    "critic": None,
}
REPOSITORY = Path(__file__).resolve().parents[1]


def test_a_run_that_never_started_is_taken_over_by_a_mended_config(tmp_path):
    RunDir.open(tmp_path, CONFIG)
    assert RunDir.open(tmp_path, CONFIG | {"name": "mended"}).read_config()["name"] == "mended"


def test_a_directory_that_only_looks_like_a_run_is_never_taken_over(tmp_path):
    """A model's directory, say, has a config.json as well."""
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    with pytest.raises(UserError, match="holds a run of another config"):
        RunDir.open(tmp_path, CONFIG)
    assert "Llama" in (tmp_path / "config.json").read_text()


def make_rollout(index=0, advantages_S=(0.5, -0.25), **columns):
    """Two steps; `columns` are tokens_T, returns_S, …."""
    steps_S = {"advantages": advantages_S, **columns.pop("steps_S", {})}
    return Rollout(
        problem=Problem("gsm8k/train/7", "1+1?", "2"),
        rollout_index=index,
        prompt_ids=(1, 2, 3),
        response_ids=(4, 5, 6, 7, 0),
        logprobs_T=(-0.5, -0.25, -1.0, -2.0, 0.0),
        finish_reason="stop",
        text="é 😀\nx\x00",
        reward=1.0,
        spans_S=(StepSpan(0, 2), StepSpan(2, 5)),
        steps_S=steps_S,
        **columns,
    )


VALUES_S = (StateValue((1.0, 0.0, 1.0), num_tokens=41), StateValue((0.0,), num_tokens=0))


def run_python(code, *arguments):
    """A child that imports the package; the caller waits for it or kills it."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_new_directory_describes_itself(tmp_path):
    opened = RunDir.open(tmp_path / "runs" / "x", CONFIG)
    assert opened.read_config() == CONFIG
    environment = opened.read_environment()
    assert environment["command"] == sys.argv
    assert environment["packages"]["torch"]
    assert environment["hardware"]["num_cores"] == os.cpu_count()
    assert environment["hardware"]["memory_gib"] > 0
    assert environment["resumed"] == []


def test_going_on_keeps_the_first_environment_and_adds_one_that_differs(tmp_path, monkeypatch):
    first = RunDir.open(tmp_path, CONFIG).read_environment()
    assert RunDir.open(tmp_path, CONFIG).read_environment() == first
    monkeypatch.setattr(sys, "argv", ["another", "command"])
    for _ in range(2):
        environment = RunDir.open(tmp_path, CONFIG).read_environment()
        assert [later["command"] for later in environment["resumed"]] == [["another", "command"]]
        assert environment | {"resumed": []} == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "y"}, 'name is "x" there, "y" here'),
        (
            {"optimization": {"learning_rate": 3e-5, "betas": [0.9, 0.999]}},
            "optimization.learning_rate is 1e-05 there, 3e-05 here",
        ),
        (
            {"optimization": {"betas": [0.9]}},
            "optimization.betas is [0.9, 0.999] there, [0.9] here",
        ),
        ({"critic": {"path": "p"}}, 'critic is null there, {"path": "p"} here'),
        ({"seed": 1}, "seed is missing there, 1 here"),
    ],
)
def test_a_directory_of_another_config_is_refused(tmp_path, change, message):
    RunDir.open(tmp_path, CONFIG).append_metrics({"iteration": 1})
    with pytest.raises(UserError) as refusal:
        RunDir.open(tmp_path, CONFIG | change)
    assert (
        str(refusal.value)
        == f"{tmp_path} holds a run of another config: {message}; give another --run-dir"
    )


def test_what_is_no_run_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match=r"is not empty and holds no run \(no config\.json\)"):
        RunDir.open(tmp_path, CONFIG)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_path_that_cannot_be_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=f"cannot create {tmp_path}/file: File exists"):
        RunDir.open(tmp_path / "file", CONFIG)
    with pytest.raises(UserError, match=f"cannot create {tmp_path}/file/x: Not a directory"):
        RunDir.open(tmp_path / "file" / "x", CONFIG)
    with pytest.raises(UserError, match="cannot create /proc/x: No such file or directory"):
        RunDir.open("/proc/x", CONFIG)


def test_metrics_are_strict_json_and_come_back(tmp_path):
    opened = RunDir.open(tmp_path, CONFIG)
    opened.append_metrics({"iteration": 1, "reward/mean": math.nan, "kl/ref": -math.inf})
    opened.append_metrics({"iteration": 2, "reward/mean": 0.1})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert lines[0] == '{"iteration": 1, "reward/mean": null, "kl/ref": null}'
    assert opened.read_metrics()[1] == {"iteration": 2, "reward/mean": 0.1}


def test_half_a_line_is_neither_read_nor_continued(tmp_path):
    opened = RunDir.open(tmp_path, CONFIG)
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1}\n{"iteration": 2, "rew')
    assert opened.read_metrics() == [{"iteration": 1}]
    opened.discard_after(1)
    opened.append_metrics({"iteration": 2})
    assert (tmp_path / "metrics.jsonl").read_text() == '{"iteration": 1}\n{"iteration": 2}\n'


def test_rollouts_and_values_come_back_as_they_were(tmp_path):
    opened = RunDir.open(tmp_path, CONFIG)
    # One critic value a token; the states are those before tokens 0 and 2.
    critic_values = ([0.125, 0, 0.5, 0, 0], [0.25, 0, 0.75, 0, 0])
    rollouts = [
        make_rollout(
            index,
            advantages_S,
            returns_S={MONTE_CARLO: VALUES_S},
            tokens_T={"values/critic": critic_values[index]},
        )
        for index, advantages_S in enumerate([(0.5, -0.25), (0.0, 1.0)])
    ]
    opened.write_rollouts(10, rollout_rows(rollouts))
    opened.write_values(10, value_rows(rollouts, [MONTE_CARLO, CRITIC]))
    opened.write_values(11, value_rows(rollouts, [MONTE_CARLO]))
    for rollout in rollouts:
        rollout.returns_S.clear()
    opened.write_values(12, value_rows(rollouts, [CRITIC]))

    row = opened.read_rollouts(10)[1]
    assert row == {
        "problem_id": "gsm8k/train/7",
        "rollout_index": 1,
        "prompt_ids": [1, 2, 3],
        "response_ids": [4, 5, 6, 7, 0],
        "logprobs": [-0.5, -0.25, -1.0, -2.0, 0.0],
        "text": "é 😀\nx\x00",
        "reward": 1.0,
        "finish_reason": "stop",
        "step_starts": [0, 2],
        "advantages_S": [0.0, 1.0],
    }
    assert opened.read_values(10)[3] == {
        "problem_id": "gsm8k/train/7",
        "rollout_index": 1,
        "step_index": 1,
        "prefix_length": 2,
        "returns_K": [0.0],
        "num_tokens": 0,
        "critic_value": 0.75,
    }
    assert [row["critic_value"] for row in opened.read_values(11)] == [None] * 4
    without_continuations = opened.read_values(12)
    assert [row["returns_K"] for row in without_continuations] == [[]] * 4
    assert [row["critic_value"] for row in without_continuations] == [0.125, 0.5, 0.25, 0.75]
    schema = pq.read_schema(tmp_path / "values" / "iter_000011.parquet")
    assert str(schema.field("critic_value").type) == "float"
    assert str(schema.field("returns_K").type.value_type) == "float"


def test_further_predictors_have_rows_of_their_own(tmp_path):
    """A row a state and predictor; the rows of the run's own look as ever, and so does the table of
    a run without further ones."""
    oracle = (StateValue((1.0, 1.0), 30), StateValue((0.0, 1.0), 20))
    rollout = make_rollout(
        returns_S={MONTE_CARLO: VALUES_S, "oracle": oracle},
        steps_S={"values/mean": (0.25, 0.25), "values/oracle": (1.0, 0.5)},
    )
    opened = RunDir.open(tmp_path, CONFIG)
    opened.write_values(1, value_rows([rollout], [MONTE_CARLO]))
    opened.write_values(2, value_rows([rollout], [MONTE_CARLO, "mean", "oracle"]))
    plain, rows = opened.read_values(1), opened.read_values(2)
    assert "predictor" not in plain[0]
    assert [row["predictor"] for row in rows] == [None, "mean", "oracle"] * 2
    assert [{**row, "predictor": None, "value": None} for row in plain] == rows[::3]
    assert [row["value"] for row in rows] == [None, 0.25, 1.0, None, 0.25, 0.5]
    assert [(row["returns_K"], row["num_tokens"]) for row in rows[1:3]] == [([], 0), ([1, 1], 30)]
    places = [(row["step_index"], row["prefix_length"]) for row in rows]
    assert places == [(0, 0)] * 3 + [(1, 2)] * 3


def test_a_state_that_was_not_sampled_has_neither_returns_nor_value(tmp_path):
    some = (StateValue((), 0), StateValue((0.0, 1.0), 20))
    rollout = make_rollout(
        returns_S={MONTE_CARLO: some, "some": some}, steps_S={"values/some": (math.nan, 0.5)}
    )
    opened = RunDir.open(tmp_path, CONFIG)
    opened.write_values(1, value_rows([rollout], [MONTE_CARLO, "some"]))
    found = [(row["returns_K"], row["num_tokens"], row["value"]) for row in opened.read_values(1)]
    assert found == [([], 0, None), ([], 0, None), ([0, 1], 20, None), ([0, 1], 20, 0.5)]


@pytest.mark.parametrize(
    ("name", "content", "read", "message"),
    [
        ("config.json", '{"name": ', RunDir.read_config, r"config\.json is no JSON file"),
        ("metrics.jsonl", '{"iteration":\n', RunDir.read_metrics, "line 1 must be the metrics"),
        ("rollouts/iter_000001.parquet", "PAR1", lambda run: run.read_rollouts(1),
         "is no complete parquet file: .{,150}$"),
        ("rollouts/iter_000002.parquet", "PAR1", lambda run: run.read_rollouts(1),
         r"cannot read .*iter_000001\.parquet: No such file"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_clear_line(tmp_path, name, content, read, message):
    (tmp_path / "rollouts").mkdir()
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read(RunDir(tmp_path))


def test_discard_after_removes_later_iterations_only(tmp_path):
    opened = RunDir.open(tmp_path, CONFIG)
    for iteration in (0, 2, 3):
        opened.write_evaluation(iteration, {"pass@1": 0.5})
        opened.write_values(iteration, [])
        opened.write_rollouts(iteration, [])
        opened.append_metrics({"iteration": iteration + 1})
    opened.discard_after(2)
    for kind in ("evaluations", "values", "rollouts"):
        assert opened.iterations(kind) == [0, 2]
    assert [row["iteration"] for row in opened.read_metrics()] == [1]


WRITE_FOREVER = """
import sys
from vineppo.run_dir import RunDir
run = RunDir.open(sys.argv[1], {"name": "x"})
print("ready", flush=True)
for iteration in range(1, 10**9):
    run.append_metrics({"iteration": iteration, "text": "x" * 20_000})
    run.write_evaluation(iteration % 3, {"text": "y" * 200_000})
"""


def test_a_killed_writer_leaves_only_whole_files(tmp_path):
    path = tmp_path / "run"
    child = run_python(WRITE_FOREVER, path)
    assert child.stdout.readline() == "ready\n"
    metrics = path / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") > 10):
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL

    leftover = path / "evaluations" / ".iter_000001.json.1.vineppo-tmp"
    leftover.write_text("half")
    opened = RunDir.open(path, {"name": "x"})
    rows = opened.read_metrics()
    assert [row["iteration"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > 3
    assert {len(opened.read_evaluation(i)["text"]) for i in (0, 1, 2)} == {200_000}
    assert not list(path.rglob("*.vineppo-tmp"))
    opened.discard_after(len(rows))
    opened.append_metrics({"iteration": len(rows) + 1})
    assert len(opened.read_metrics()) == len(rows) + 1


FILL_A_SMALL_DISK = """
import subprocess, sys
from hashlib import sha256
from pathlib import Path
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.run_dir import VALUE_SCHEMA
path = Path(sys.argv[1])
run = RunDir.open(path, {"name": "x"})
run.append_metrics({"iteration": 1})
row = dict.fromkeys(VALUE_SCHEMA.names) | {"returns_K": []}
rows = [row | {"problem_id": sha256(bytes([i % 256, i // 256])).hexdigest()} for i in range(4000)]
(path / "filler").write_bytes(bytes(2**22 - 2**16))
def attempt():
    for write in (
        lambda: run.append_metrics({"iteration": 2, "text": "x" * 2**17}),
        lambda: run.write_values(2, rows),
    ):
        try:
            write()
        except UserError as error:
            print(error)
attempt()
(path / "filler").unlink()
run._lock.close()  # the system makes nothing read-only that is open to be written
subprocess.run(["mount", "-o", "remount,ro", path], check=True)
attempt()
print((path / "metrics.jsonl").read_text(), end="")
print([entry.name for entry in (path / "values").iterdir()])
"""


def test_a_full_and_then_a_read_only_disk(tmp_path):
    command = [sys.executable, "-c", FILL_A_SMALL_DISK, str(tmp_path)]
    done = in_small_tmpfs(tmp_path, command)
    assert done.returncode == 0, done.stderr
    written = "metrics.jsonl", "values/iter_000002.parquet"
    refused = [
        f"cannot write {tmp_path}/{name}: {reason}"
        for reason in ("No space left on device", "Read-only file system")
        for name in written
    ]
    assert done.stdout.splitlines() == [*refused, '{"iteration": 1}', "[]"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_that_cannot_be_written_is_one_clear_line():
    with pytest.raises(UserError) as refusal, log_to(Path("/dev/full")):
        logging.getLogger("vineppo").info("a line")
    assert str(refusal.value) == "cannot write /dev/full: No space left on device"


def test_reading_needs_no_torch():
    code = "import sys, vineppo.run_dir; print([m for m in ('torch', 'vllm') if m in sys.modules])"
    output, _ = run_python(code).communicate()
    assert output == "[]\n"


def test_the_source_is_known_only_at_the_top_of_a_checkout(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    assert describe_source(tmp_path) == {"commit": commit, "is_dirty": False}
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "new.py").write_text("")
    assert describe_source(tmp_path) == {"commit": commit, "is_dirty": True}
    assert describe_source(tmp_path / "site-packages") is None


@pytest.mark.parametrize("module", [config, run_dir])
def test_the_examples_of_the_docstrings_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
