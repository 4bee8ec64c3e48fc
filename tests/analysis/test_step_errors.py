"""Falls of the value at the first wrong step: the forms of the files, the scores, a whole run."""

import json

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from support.sampled_runs import write_solved_run

from analysis import step_errors
from analysis.__main__ import main
from analysis.solutions import Solution, read_solutions
from vineppo.errors import UserError

OURS = {"question": "1+1?", "steps": ["a", "b", "c"], "first_wrong": 1, "answer": 2}
FORMS = [
    (OURS, [("1+1?", 1, "2")]),
    ({**OURS, "first_wrong": None}, [("1+1?", None, "2")]),
    ({"input": "x", "steps": ["a", "b", "c"], "mistake_index": 0, "target": "(A)"},
     [("x", 0, "(A)")]),
    ({"problem": "y", "steps": ["a", "b", "c"], "label": -1}, [("y", None, "")]),
    ({"problem": "y", "steps": ["a", "b", "c"], "label": 2}, [("y", 2, "")]),
    ({"original_question": "o", "original_process": ["a", "b", "c"], "modified_question": "m",
      "modified_process": ["a", "b", "c"], "error_steps": [3, 2]}, [("m", 1, ""), ("o", None, "")]),
    ({"modified_question": "m", "modified_process": ["a", "b", "c"], "error_steps": []},
     [("m", None, "")]),
]  # fmt: skip


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(("row", "expected"), FORMS)
def test_each_form(tmp_path, row, expected):
    found = read_solutions(write(tmp_path / "data.jsonl", [row]))
    assert [(s.question, s.first_wrong, s.answer) for s in found] == expected
    assert {s.steps_S for s in found} == {("a", "b", "c")}
    assert len({s.id for s in found}) == len(found)


def test_solutions_made_from_one_question_are_drawn_together_and_its_own_counts_once(tmp_path):
    row = FORMS[5][0]
    other = row | {"modified_question": "n", "modified_process": ["a", "b", "d"]}
    last = row | {"original_question": "q"}
    found = read_solutions(write(tmp_path / "data.jsonl", [row, other, last]))
    assert [(s.question, s.problem) for s in found] == [
        ("m", "0"), ("o", "0"), ("n", "0"), ("m", "2"), ("q", "2")
    ]  # fmt: skip


def test_a_step_may_be_empty_as_one_of_big_bench_mistake_is(tmp_path):
    row = {"input": "x", "steps": ["a", "", "c"], "mistake_index": 1, "target": ")"}
    (found,) = read_solutions(write(tmp_path / "data.jsonl", [row]))
    assert found.steps_S == ("a", "", "c")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": "?"}, "row 2: must have first_wrong, mistake_index, modified_process or"),
        ({**OURS, "first_wrong": 3}, "row 2: the first wrong step must be null or one of 3, got 3"),
        ({**OURS, "first_wrong": True}, "must be null or one of 3, got True"),
        ({**OURS, "steps": []}, "row 2: the steps must be a list of texts"),
        ({**OURS, "steps": ["", "", ""]}, "row 2: the steps must be a list of texts"),
        ({**OURS, "question": " "}, "row 2: the question must be a text"),
    ],
)
def test_a_row_of_no_form_is_named(tmp_path, row, said):
    with pytest.raises(UserError, match=said):
        read_solutions(write(tmp_path / "data.jsonl", [OURS, row]))


def test_auc_is_mann_and_whitneys_u_with_weights_and_ties():
    draw = np.random.default_rng(0)
    score_N, is_wrong_N = draw.integers(0, 5, 200), draw.random(200) < 0.3
    weights_N = draw.integers(0, 4, 200)
    found = step_errors.auc(score_N, weights_N * is_wrong_N, weights_N * ~is_wrong_N)
    wrong, right = (np.repeat(score_N, weights_N * mask_N) for mask_N in (is_wrong_N, ~is_wrong_N))
    expected = mannwhitneyu(wrong, right).statistic / len(wrong) / len(right)
    assert found == pytest.approx(expected)
    assert step_errors.auc(np.array([1, 2, 2]), np.eye(3)[2], 1 - np.eye(3)[2]) == 0.75
    assert np.isnan(step_errors.auc(np.array([1.0]), np.ones(1), np.zeros(1)))


def scored(*solutions):
    """Of (first wrong step, values before the steps and after the last)."""
    whose = {"method": "m", "seed": 1, "checkpoint": 0, "data": "d", "predictor": "p"}
    rows = []
    for number, (wrong, values_S) in enumerate(solutions):
        steps = ("s",) * (len(values_S) - 1)
        solution = Solution(str(number), str(number), "?", steps, wrong)
        rows += step_errors.step_rows(whose, solution, values_S)
    frame = step_errors.score_rows(step_errors.VALUES.frame(rows), 200, 0)
    return frame.set_index("metric")


def test_scores_by_hand():
    """Falls 0.1, 0.4, 0.2 with the second wrong; 0, 0.3 with the first wrong; 0.2 of a right one.

    What comes behind a wrong step is neither right nor wrong: of the positives 0.4 and 0 and the
    negatives 0.1 and 0.2 the auc is 1/2. Ranks are 0 and 1.
    """
    found = scored((1, [0.9, 0.8, 0.4, 0.2]), (0, [0.5, 0.5, 0.2]), (None, [0.5, 0.3]))
    assert found.loc["auc", "value"] == 0.5
    assert found.loc["rank", "value"] == 0.5
    assert found.loc["top1", "value"] == 0.5
    assert found.loc["top1_chance", "value"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert (found["num_solutions"].unique(), found["num_wrong"].unique()) == ([3], [2])


def test_values_that_never_change_know_nothing():
    found = scored((1, [0.5] * 4), (0, [0.5] * 3))
    assert found.loc["auc", "value"] == found.loc["rank", "value"] == 0.5
    assert found.loc["top1", "value"] == pytest.approx(found.loc["top1_chance", "value"])


# 1 until a line says "4+4=", which it takes for wrong.
KNOWING = """
from vineppo.values import ValuePredictor


class Knowing(ValuePredictor):
    def estimate(self, rollouts):
        values = [[self.value(one, step) for step in range(len(one.spans_S))] for one in rollouts]
        self.set_values(rollouts, values)

    def value(self, one, step):
        lines = one.text.split("\\n")[:step]
        return 0.0 if any(line.startswith("4+4=") for line in lines) else 1.0
"""
TRANSFORMERS = {
    "kind": "transformers", "dtype": "float32", "max_model_len": 128, "max_num_seqs": 64,
    "max_num_batched_tokens": 2048,
}  # fmt: skip


def test_a_run_is_scored(tmp_path, capsys):
    """Where people mark what the predictor takes for wrong; beside it continuations."""
    (tmp_path / "knowing.py").write_text(KNOWING)
    knowing = {"kind": f"{tmp_path / 'knowing.py'}:Knowing"}
    values = json.dumps({"credit": None, "predictors": {"knowing": knowing}})
    run = write_solved_run(
        tmp_path / "run", settings=[f"values={values}", f"engine={json.dumps(TRANSFORMERS)}"]
    )
    wrong = {"question": "4+4+1?", "steps": ["4+4=9", "9+1=0", "####0"], "first_wrong": 0}
    right = {"question": "4+5+1?", "steps": ["4+5=9", "9+1=0", "####0"], "first_wrong": None}
    late = {"question": "1+3+4?", "steps": ["1+3=4", "4+4=7", "####7"], "first_wrong": 1}
    long = {**right, "steps": ["4+5=9"] * 20}
    data = write(tmp_path / "data.jsonl", [wrong, right, late, long])
    out = tmp_path / "out"
    given = ["step-errors", str(run), "--data", str(data), "--out", str(out), "--checkpoints", "0"]
    assert main([*given, "--num-continuations", "2", "--num-resamples", "20"]) == 0
    assert "left out 1 of 4 solutions" in capsys.readouterr().out
    rows = step_errors.SCORES.read(out).set_index(["predictor", "metric"])
    assert rows.loc[("knowing", "auc"), "value"] == 1.0
    assert rows.loc[("knowing", "top1"), "value"] == 1.0
    assert 0 <= rows.loc[("mc_2", "auc"), "value"] <= 1
    values = step_errors.VALUES.read(out)
    own = values[(values["predictor"] == "knowing") & (values["solution"] == "2")]
    assert own[["place", "before", "after"]].to_numpy().tolist() == [
        [-1, 1, 1],
        [0, 1, 0],
        [1, 0, 0],
    ]
