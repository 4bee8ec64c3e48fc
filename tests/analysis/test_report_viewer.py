"""The rollout viewer: each step's text, advantage, returns, critic's value and truth."""

from support.report_runs import add_critic, add_truth, steps_of, the_error

from analysis.frames import read_run
from analysis.report.page import labels, script_json
from analysis.report.viewer import Extent, viewer_data
from analysis.truth import truth_tables
from vineppo.run_dir import RunDir


def view(*paths, truth=(), iterations="last", num_problems=16, num_responses=8):
    """The tables that the viewer shows of each run."""
    runs = [read_run(path) for path in paths]
    extent = Extent(iterations, num_problems, num_responses)
    tables = truth_tables(paths, truth, paths[0] / "out")
    return [run["tables"] for run in viewer_data(runs, labels(runs), extent, tables)["runs"]]


def test_each_step_has_its_own_text_advantage_and_returns(run_path):
    ((table,),) = view(run_path)
    steps = steps_of(table)
    assert len(steps) == 3 * 2 * 3  # problems, rollouts, steps
    texts = [steps["sum/0", 0, place]["text"] for place in range(3)]
    assert texts == ["0+1=1\n", "<0&2\n", "#1</s>"]
    assert steps["sum/1", 1, 0] == {
        "text": "1+1=2\n",
        "advantage": 0.25,
        "returns": [0, 1, 0, 1],
    }
    assert steps["sum/1", 1, 1]["advantage"] == -0.75
    assert (table["iteration"], table["scale"], table["low"], table["high"]) == (12, 1, 0, 1)
    assert table["problems"][2]["prompt"] == "2+1?"
    assert table["problems"][2]["rewards"] == [0, 1]


def test_a_state_has_its_truth_in_every_rollout_that_passes_it(run_path, tmp_path):
    # Both rollouts of a problem are the same tokens, so that their states are one.
    add_truth(tmp_path, run_path, 11, {("sum/0", 0, 1): 15, ("sum/2", 1, 2): 50})
    ((table,),) = view(run_path, truth=[tmp_path])
    truths = {key: step["truth"] for key, step in steps_of(table).items() if "truth" in step}
    assert truths.keys() == {("sum/0", i, 1) for i in (0, 1)} | {("sum/2", i, 2) for i in (0, 1)}
    # Brown, Cai & DasGupta, 2001: Jeffreys' interval of 15 of 50 is (0.1869, 0.4355).
    expected = {"correct": 15, "samples": 50, "low": 0.1869, "high": 0.4355, "policy": 11}
    assert truths["sum/0", 0, 1] == truths["sum/0", 1, 1] == expected
    assert truths["sum/2", 0, 2]["high"] == 1


def test_truth_that_cannot_be_shown_is_one_line(two_run_paths, tmp_path, capsys):
    run_path, other = two_run_paths
    assert the_error(capsys, run_path, "--truth", tmp_path / "no").endswith("no is no directory\n")
    error = the_error(capsys, run_path, "--truth", other)
    assert error.startswith(f"{run_path} has no ground truth in {other}; make it with: ")
    table = add_truth(tmp_path / "truth", run_path, 11, {("sum/0", 0, 1): 15})
    run_dir = RunDir(run_path)
    rows = run_dir.read_rollouts(12)
    run_dir.write_rollouts(12, [row | {"step_starts": [0, 5, 11]} for row in rows])
    error = the_error(capsys, run_path, "--truth", tmp_path / "truth")
    assert error.startswith(f"{table} is of another run: its state ('sum/0', 0, 1) is none of")
    table.write_bytes(table.read_bytes()[:100])
    error = the_error(capsys, run_path, "--truth", tmp_path / "truth")
    assert error.startswith(f"{table} is no complete parquet file: ")


def test_numbers_of_a_critic_that_diverged_are_left_out(run_path):
    add_critic(run_path, float("nan"))
    ((table,),) = view(run_path)
    assert steps_of(table)["sum/0", 0, 0]["critic"] is None
    assert "NaN" not in script_json({"tables": [table]})
