"""Ground truth: which states, what counts, by a real engine, killed half-way, and bad input."""

import json

import pytest
from support.page import page_predictors
from support.sampled_runs import NUM_ROLLOUTS, write_solved_run
from support.trained_runs import lasting_process_group  # noqa: F401

from analysis.__main__ import main
from analysis.frames import choose_iterations
from analysis.sampling.journal import Journal, Meter
from analysis.sampling.rollouts import query_states, read_saved, sample_boundaries
from analysis.truth import TruthState, find_truth, read_truth, truth_path, write_truth
from vineppo.errors import UserError
from vineppo.types import Problem

NUM_BOUNDARIES = 21  # of the six demonstrations
OPTIONS = ["--states=99", "--samples=24", "--draws=3"]  # all boundaries


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    own = page_predictors(tmp_path_factory.mktemp("mine"))
    predictors = f"values.predictors={json.dumps(own | {'others': {'kind': 'group_mean'}})}"
    return write_solved_run(tmp_path_factory.mktemp("solved") / "run", settings=[predictors])


def make_state(**changes):
    state = TruthState(
        checkpoint=3, rollout_iteration=4, problem_id="p", rollout_index=0, step_index=1,
        num_steps=3, prefix_length=5, response_length=12, reward=1.0, num_samples=4,
        num_correct=3, num_truncated=0, num_tokens=40, draws_D=(1, 0, 1),
    )  # fmt: skip
    return TruthState(**{**vars(state), **changes})


def command(run_path, out):
    return ["ground-truth", str(run_path), f"--out={out}", *OPTIONS]


@pytest.fixture(scope="module")
def sampled(run_path, tmp_path_factory, lasting_process_group):  # noqa: ARG001, F811
    """The table of a run that was broken off once and gone on with, and its journal then."""
    out = tmp_path_factory.mktemp("truth")
    target = truth_path(out, run_path, 0)
    journal = target.with_suffix(".partial.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Meter, "tick", lambda _: break_off(journal))
        with pytest.raises(KeyboardInterrupt):
            main(command(run_path, out))
    with journal.open("ab") as file:
        file.write(b'{"state": 1, "ki')
    lines = [json.loads(line) for line in journal.read_bytes().split(b"\n")[1:-1]]
    assert main(command(run_path, out)) == 0
    assert not journal.exists()
    return out, target, lines


def break_off(journal):
    if journal.exists() and journal.read_bytes().count(b"\n") > 4:
        raise KeyboardInterrupt


def test_what_broke_off_goes_on_and_loses_nothing(sampled):
    _, target, lines = sampled
    states = read_truth(target)
    counted = [line for line in lines if line["key"].startswith("truth")]
    assert counted
    for line in counted:
        state = states[int(line["key"].split()[1])]
        assert state.num_correct == sum(line["returns_K"])
        assert state.num_tokens == line["num_tokens"]
    about = json.loads(target.with_suffix(".json").read_text())
    assert about["num_samples"] == 24
    assert about["tokens_per_s"] > 0


def test_values_near_the_end_are_nearly_the_rewards(sampled):
    _, target, _ = sampled
    states = read_truth(target)
    queries = [state for state in states if not state.prefix_length]
    inner = [state for state in states if state.prefix_length]
    assert len(inner) == NUM_BOUNDARIES
    assert {state.problem_id for state in queries} == {state.problem_id for state in inner}
    assert all(state.is_own_policy for state in states)
    assert all(0 < state.prefix_length < state.response_length for state in inner)
    assert all(len(state.draws_D) == 3 and set(state.draws_D) <= {0, 1} for state in states)
    # After the last step but one only the last can go wrong.
    last = [state for state in inner if state.step_index == state.num_steps - 1]
    assert {state.reward for state in last} == {0.0, 1.0}
    assert all(abs(state.value - state.reward) < 0.3 for state in last)
    assert 0.2 < sum(state.value for state in queries) / len(queries) < 0.8
    # Both rollouts of a problem are its solution.
    assert all(state.predictions["others"] == state.reward for state in states)
    # The probe has not learnt yet; the policy is asked for the last digit before it is written.
    assert all(state.predictions["probe"] == 0.5 for state in states)
    asked = [state.predictions["asked"] * 9 for state in states]
    assert all(number == pytest.approx(round(number)) for number in asked)
    assert len(set(map(round, asked))) > 2
    # A continuation has at least the end-of-sequence token.
    assert all(state.num_tokens >= state.num_samples for state in states)


def test_what_is_there_is_kept_and_other_settings_are_refused(run_path, sampled, capsys):
    """Neither starts an engine."""
    out, target, _ = sampled
    before = target.stat().st_mtime_ns
    assert main(["ground-truth", str(run_path), f"--out={out}", *OPTIONS]) == 0
    assert str(target) in capsys.readouterr().out
    other = [*OPTIONS, "--samples=64"]
    assert main(["ground-truth", str(run_path), f"--out={out}", *other]) == 2
    assert "was made with num_samples 24, now it is 64" in capsys.readouterr().err
    assert target.stat().st_mtime_ns == before


def test_boundaries_are_distinct_seeded_and_within(run_path):
    rows = read_saved(run_path, 1, lambda name: Problem(name, "", ""))
    everything = sample_boundaries(rows, 10**6, 0, 1)
    # Both rollouts of a problem are its solution: each state is there once.
    num_boundaries = sum(len(row.spans_S) - 1 for row in rows) // NUM_ROLLOUTS
    assert len(everything) == len({state.key for state in everything}) == num_boundaries
    assert min(state.step for state in everything) == 1
    some = sample_boundaries(rows, 5, 0, 1)
    assert [s.key for s in some] == [s.key for s in sample_boundaries(rows, 5, 0, 1)]
    assert {s.key for s in some} != {s.key for s in sample_boundaries(rows, 5, 1, 1)}
    assert {s.key for s in some} < {s.key for s in everything}
    queries = query_states(some)
    assert [s.rollout.problem.id for s in queries] == list(
        dict.fromkeys(s.rollout.problem.id for s in some)
    )
    assert all(s.prefix_ids == () for s in queries)


def test_checkpoints_are_chosen():
    def chosen(available, wanted):
        return choose_iterations(available, wanted, "--checkpoints", "run has no policy")

    assert chosen(range(10), "spaced:4") == [0, 3, 6, 9]
    assert chosen(range(10), "spaced:1") == [0]
    assert chosen([0, 4], "spaced:9") == [0, 4]
    assert chosen(range(10), "7,2") == [2, 7]
    assert [chosen(range(1, 13), w) for w in ("ends", "last")] == [[1, 7, 12], [12]]
    assert [chosen([4, 8], w) for w in ("ends", "all")] == [[4, 8], [4, 8]]
    for wanted, message in (
        ("some", "--checkpoints must be all, last, ends, spaced:N or numbers"),
        ("spaced:0", "--checkpoints must be all, last, ends, spaced:N or numbers"),
        ("11", "run has no policy of iteration 11"),
    ):
        with pytest.raises(UserError, match=message):
            chosen(range(10), wanted)


def test_a_table_comes_back(tmp_path):
    predictions = {"predictions": {"critic": 0.25}}
    states = [make_state(**predictions), make_state(step_index=0, prefix_length=0, draws_D=())]
    path = truth_path(tmp_path, tmp_path / "runs/a", 3)
    write_truth(path, states)
    assert read_truth(path) == states
    assert find_truth(tmp_path / "runs/a", [], [tmp_path / "none", tmp_path]) == {3: path}
    assert [make_state(rollout_iteration=i).is_own_policy for i in (3, 4)] == [False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_correct": 5}, "row 1: num_correct must be in 0..num_samples"),
        ({"num_correct": None}, "row 1 has an empty cell"),
    ],
)
def test_a_wrong_table_is_named(tmp_path, change, message):
    path = tmp_path / "iter_000003.parquet"
    write_truth(path, [make_state(**change)])
    with pytest.raises(UserError, match=message):
        read_truth(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="is no complete parquet file"):
        read_truth(path)


def test_a_journal_of_other_settings_or_damage_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    Journal(path, {"seed": 1}).append({"state": 0})
    assert Journal(path, {"seed": 1}).lines == [{"state": 0}]
    with pytest.raises(UserError, match="was made with seed 1, now it is 2"):
        Journal(path, {"seed": 2})
    path.write_bytes(b'{"seed": 1}\n{"sta\n{"state": 1}\n')
    with pytest.raises(UserError, match="is damaged"):
        Journal(path, {"seed": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is no directory"),
        (["{empty}"], "holds no run"),
        (["{run}", "--samples=1"], "--samples must be at least 2, got 1"),
    ],
)
def test_bad_input_is_one_line(run_path, tmp_path, capsys, arguments, message):
    names = {"run": run_path, "empty": tmp_path}
    assert main(["ground-truth", *(text.format(**names) for text in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
