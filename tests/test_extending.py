"""docs/extending.md as a user would follow it: every file and command of the page is run."""

import json
import math
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from pyarrow.parquet import read_table
from support.page import PAGE, SMALL, page_files
from support.processes import run_cli
from support.rollouts import rollout

from vineppo.cli import main
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.credit import token_advantages
from vineppo.run_dir import RunDir
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader
from vineppo.types import Problem, StepSpan

OTHERS = ("trl", "openrlhf", "verl")  # tests/test_other_libraries.py has them
README = PAGE.parents[1] / "README.md"
COMMANDS = [
    line.split()[1:]
    for page in (PAGE, README)
    for line in re.findall(r"^vineppo train mine/.+$", page.read_text(), flags=re.M)
    if Path(line).stem not in OTHERS
]
FAST = ("mine/credit.jsonnet",)  # all others are slow tests
PROBLEM = Problem("mine/train/0", "4+6?", "0", None)


pytestmark = pytest.mark.usefixtures("files")


@pytest.fixture
def files(tmp_path, configs, monkeypatch) -> Path:
    """The page's files where it has them: in a folder beside the configs, named in line one."""
    found = page_files() | page_files(README)
    del found["configs/mine.jsonnet"]
    (tmp_path / "mine").mkdir()
    for path, code in found.items():
        (tmp_path / path).write_text(code)
    (tmp_path / "configs").symlink_to(configs)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine"


@pytest.fixture
def loaded():
    """The page's estimator with the page's segmenter."""
    segmenter = {"kind": "mine/results.py:Results"}
    return lambda *assignments: load_config(
        TrainConfig,
        "mine/shrunk.jsonnet",
        [f"credit.segmenter={json.dumps(segmenter)}", *assignments],
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_finds_its_files(command, capsys):
    assert main([*command, "--dry-run"]) == 0
    config = json.loads(capsys.readouterr().out)
    assert re.search(f'"mine/{config["name"]}.py[:"]', json.dumps(config))


def test_every_file_of_the_page_has_its_command(files):
    plugins = {path.stem for path in files.glob("*.py")} - {*OTHERS, "make_rows"}
    assert {f"train mine/{stem}.jsonnet" for stem in plugins} == set(map(" ".join, COMMANDS))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            command,
            marks=() if command[-1] in FAST else pytest.mark.slow,
        )
        for command in COMMANDS
    ],
    ids=" ".join,
)
def test_a_command_of_the_page_trains(command):
    settings = [f"--set={key}={value}" for key, value in SMALL.items()]
    done = run_cli([*command, *settings])
    assert done.returncode == 0, done.stderr
    name = Path(command[-1]).stem
    run = RunDir(Path("runs") / name)
    assert run.last_logged_iteration() == 2
    own_files = json.loads((run.path / "own_files.json").read_text())
    assert list(own_files["sha256"]) == [f"mine/{name}.py"]
    rows = read_table(run.path / "rollouts/iter_000002.parquet").to_pylist()
    assert len(rows) == 16
    TRACES[name](run.path, rows)


Rows = list[dict[str, Any]]


def has_own_problems(_: Path, rows: Rows) -> None:
    assert all(row["problem_id"].startswith("sums/train/") for row in rows)


def has_own_rewards(_: Path, rows: Rows) -> None:
    assert 0 < max(row["reward"] for row in rows) < 1


def has_gains(run: Path, rows: Rows) -> None:
    """Their sum over a response is R − V(s_0)."""
    values = read_table(run / "values/iter_000002.parquet").to_pylist()
    starts = {(v["problem_id"], v["rollout_index"]): v for v in values if v["step_index"] == 0}
    for row in rows:
        start = starts[row["problem_id"], row["rollout_index"]]
        assert sum(row["advantages_S"]) == pytest.approx(row["reward"] - mean(start["returns_K"]))


def has_own_steps(_: Path, rows: Rows) -> None:
    """About two an operation: lines would have one."""
    num_operations = sum(row["text"].count("=") for row in rows)
    assert sum(len(row["step_starts"]) for row in rows) > 1.8 * num_operations


def has_unlikely_starts(_: Path, rows: Rows) -> None:
    """Steps begin where the sampled token's probability is under 0.3, but not at the last."""
    for row in rows:
        inner = list(enumerate(row["logprobs"]))[1:-1]
        unlikely = [place for place, logprob in inner if logprob < math.log(0.3)]
        assert row["step_starts"] == [0, *unlikely]
    assert sum(len(row["step_starts"]) for row in rows) > len(rows)


def has_own_advantages(run: Path, rows: Rows) -> None:
    """Their sum over a response is R − (mean V + V(s_0)) / 2."""
    values: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in read_table(run / "values/iter_000002.parquet").to_pylist():
        values[row["problem_id"], row["rollout_index"]].append(mean(row["returns_K"]))
    for row in rows:
        values_S = values[row["problem_id"], row["rollout_index"]]
        expected = row["reward"] - (mean(values_S) + values_S[0]) / 2
        assert sum(row["advantages_S"]) == pytest.approx(expected)


def has_gains_less_siblings(_: Path, rows: Rows) -> None:
    """The first step's gain less the others' mean. Over the problem they sum to 0."""
    by_problem: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_problem[row["problem_id"]].append(row["advantages_S"][0])
    for advantages in by_problem.values():
        assert sum(advantages) == pytest.approx(0, abs=1e-5)


def has_own_values(run: Path, rows: Rows) -> None:
    """At first the prior; then with the rewards of the first iteration, as are the advantages."""
    before, after = (
        read_table(run / f"values/iter_00000{iteration}.parquet").to_pylist()
        for iteration in (1, 2)
    )
    assert {row["value"] for row in before if row["predictor"] == "ledger"} == {0.5}
    earlier = read_table(run / "rollouts/iter_000001.parquet").to_pylist()
    (first,) = {r["value"] for r in after if r["predictor"] == "ledger" and r["step_index"] == 0}
    assert first == pytest.approx((sum(row["reward"] for row in earlier) + 8 * 0.5) / (16 + 8))
    metrics = RunDir(run).read_metrics()[-1]
    assert metrics["values/ledger/steps"] == max(
        len(row["step_starts"]) for row in [*earlier, *rows]
    )
    assert "values/ledger/explained_variance" in metrics


def rows_of(run: Path, iteration: int, predictor: str) -> Rows:
    rows = read_table(run / f"values/iter_00000{iteration}.parquet").to_pylist()
    return [row for row in rows if row["predictor"] == predictor]


def has_probed_values(run: Path, _: Rows) -> None:
    """At first the prior; then what is fitted to the first iteration's Monte-Carlo values."""
    assert {row["value"] for row in rows_of(run, 1, "probe")} == {0.5}
    assert len({row["value"] for row in rows_of(run, 2, "probe")}) > 16
    metrics = RunDir(run).read_metrics()[-1]
    assert metrics["values/probe/fit"] > 0.3
    assert "values/probe/explained_variance" in metrics


def has_answers(run: Path, rows: Rows) -> None:
    """Ninths, or what stands in for an answer without a number; each state was asked once."""
    found = rows_of(run, 2, "asked")
    assert len(found) == sum(len(row["step_starts"]) for row in rows)
    ninths = [digit / 9 for digit in range(10)]
    assert all(min(abs(row["value"] - v) for v in (*ninths, 0.5)) < 1e-6 for row in found)
    first = [row["num_tokens"] for row in found if row["step_index"] == 0]
    assert sum(map(bool, first)) == len({row["problem_id"] for row in rows})
    metrics = RunDir(run).read_metrics()[-1]
    continuations = read_table(run / "values/iter_000002.parquet").to_pylist()
    assert metrics["tokens/values"] == sum(row["num_tokens"] for row in continuations)
    assert "values/asked/explained_variance" in metrics


def has_late_states(_: Path, rows: Rows) -> None:
    """Tokens share credit up to the first boundary from token 15 on, and from it on."""
    pieces = 0
    for row in rows:
        late = [step for step, start in enumerate(row["step_starts"]) if start >= 15][:1]
        before_S, after_S = (
            row["advantages_S"][: late[0] if late else None],
            row["advantages_S"][late[0] :] if late else [],
        )
        assert len(set(before_S)) == 1
        assert len(set(after_S)) <= 1
        pieces += len(set(after_S))
    assert pieces > 0


def has_few_trained_tokens(path: Path, _: Rows) -> None:
    """A fifth and one of every response, of about 30 tokens."""
    fracs = [metrics["policy/trained_frac"] for metrics in RunDir(path).read_metrics()]
    assert all(0.2 < frac < 0.3 for frac in fracs)


# What shows that the page's function was called.
TRACES = {
    "sums": has_own_problems,
    "brief": has_own_rewards,
    "credit": has_gains,
    "results": has_own_steps,
    "forks": has_unlikely_starts,
    "shrunk": has_own_advantages,
    "siblings": has_gains_less_siblings,
    "late": has_late_states,
    "fifth": has_few_trained_tokens,
    "ledger": has_own_values,
    "probe": has_probed_values,
    "asked": has_answers,
}


def test_a_task():
    config = load_config(TrainConfig, "mine/sums.jsonnet", ["task.num_test_problems=3"])
    data = load_task(config.task)
    assert (len(data.train_P), len(data.test_P)) == (256, 3)
    for problem in data.train_P:
        digits = problem.question.removesuffix("?").split("+")
        assert len(digits) == 6
        assert sum(map(int, digits)) % 10 == int(problem.answer)


def test_a_reward():
    config = load_config(TrainConfig, "mine/brief.jsonnet", [])
    texts = ["####0", "####6", "4+6=0\n####0" + " " * 89]
    with Grader(config.task.grading) as grader:
        assert [grader.submit(PROBLEM, text, "stop").result() for text in texts] == [
            pytest.approx(1 / 1.05), 0.0, 0.5
        ]  # fmt: skip


def test_a_segmenter(loaded):
    segmenter = loaded().credit.segmenter
    texts_T = [*"4+6=0", "\n", "####", "0", "<eos>"]
    spans = segmenter.spans(texts_T, [-0.5] * len(texts_T))
    assert spans == (StepSpan(0, 4), StepSpan(4, 6), StepSpan(6, 9))


def test_a_segmenter_by_log_probabilities():
    """0.5, 0.9, 0.2, 0.4, 0.1 and 0.01: the end token, though unlikely, ends the step before it."""
    segmenter = load_config(TrainConfig, "mine/forks.jsonnet", []).credit.segmenter
    logprobs_T = [math.log(p) for p in (0.5, 0.9, 0.2, 0.4, 0.1, 0.01)]
    spans = segmenter.spans([*"4+6=0", "<eos>"], logprobs_T)
    assert spans == (StepSpan(0, 2), StepSpan(2, 4), StepSpan(4, 6))


def test_an_estimator(loaded):
    config = loaded().credit
    response = rollout([0.0, 0.0, 1.0], values_S=[0.5, 0.25], lengths_S=[2, 1])
    # The mean is 0.375: values 0.4375 and 0.3125 before the steps, the reward 1 after them.
    assert token_advantages(config, [response]) == [[-0.125, -0.125, 0.6875]]


def test_an_estimator_of_siblings():
    """Gains −0.25 and 0.75 of one, 0.5 of the other, which has no second step."""
    config = load_config(TrainConfig, "mine/siblings.jsonnet", []).credit
    first, second = rollout([0.0, 0.0, 1.0], lengths_S=[2, 1]), rollout([0.0])
    first.steps_S["values/monte_carlo"], second.steps_S["values/monte_carlo"] = [0.5, 0.25], [-0.5]
    assert token_advantages(config, [first, second]) == [[-0.75, -0.75, 0.75], [0.75]]
