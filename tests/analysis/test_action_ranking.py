"""Action ranking from tables: accuracies by hand, redrawing, the figure, and bad tables."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from analysis import figures
from analysis.__main__ import main
from analysis.action_ranking import (
    FOLDER,
    SCHEMA,
    accuracies,
    draw_method,
    read_states,
)
from analysis.sampling.journal import settings_path, write_settings
from analysis.tables import find_tables, table_path
from analysis.value_figures import styles
from vineppo.run_dir import write_parquet

FILES = ("action_ranking.csv", "action_ranking.png")


def make_steps(problem, prefix_length, num_correct, draws, critic=None, terminal=()):
    """A state of a response of 10 tokens with a step an entry of `num_correct`, of 256."""
    return [
        {
            "checkpoint": 4, "rollout_iteration": 5, "num_drawn_states": 7, "problem_id": problem,
            "rollout_index": 0, "step_index": prefix_length // 2, "num_steps": 5,
            "prefix_length": prefix_length, "response_length": 10, "alternative_index": index,
            "step_ids": (index, 7), "step_text": f"{index}\n", "num_proposed": index + 1,
            "num_proposals": 16, "is_terminal": index in terminal, "num_samples": 256,
            "num_correct": num_correct[index], "num_truncated": 0, "num_tokens": 512,
            "draws_D": tuple(draws[index]),
            "predictions": {} if critic is None else {"critic": critic[index]},
        }
        for index in range(len(num_correct))
    ]  # fmt: skip


# At the query of p only the first alternative stands out: (0, 1) and (0, 2) are resolved.
QUERY = make_steps(
    "p", 0, (200, 100, 105), ((1, 1, 0, 1), (1, 0, 0, 0), (0, 0, 1, 0)), (0.5, 0.5, 0.125)
)
# In the middle of q the second is the best, and the critic says the opposite.
MIDDLE = make_steps(
    "q", 5, (0, 256, 0), ((0,) * 4, (1,) * 4, (0,) * 4), (0.75, 0.25, 0.75), terminal=(1,)
)
# All of these end the response: nobody estimates anything.
OVER = make_steps(
    "q", 8, (0, 256, 256), ((0,) * 4, (1,) * 4, (1,) * 4), (0.0, 1.0, 1.0), terminal=(0, 1, 2)
)


# Early in r, a problem of another seed: the critic is right, a single draw is not.
EARLY = make_steps("r", 2, (0, 128, 256), ((1,) * 4, (0,) * 4, (0,) * 4), (0.0, 0.5, 1.0))


def write_table(folder, steps=(*QUERY, *MIDDLE, *OVER), run="ppo", checkpoint=4, seed=1):
    path = table_path(folder, FOLDER, folder / f"{run}_seed{seed}", checkpoint)
    write_parquet(path, [step | {"checkpoint": checkpoint} for step in steps], SCHEMA)
    write_settings(path, {"method": run, "run_seed": seed})
    return path


def rows_of(tables, continuations):
    """The accuracies; None where a cell is empty."""
    frame = accuracies([read_states(path) for path in tables], continuations)
    rows = frame.astype(object).where(frame.notna(), None)
    return [SimpleNamespace(**row) for row in rows.to_dict("records")]


def test_accuracies_by_hand(tmp_path):
    rows = rows_of([write_table(tmp_path, (*QUERY, *MIDDLE, *EARLY))], [1, 2])
    assert [(row.group, row.predictor) for row in rows] == [
        (group, predictor)
        for group in ("boundaries", "query", "first third", "middle third", "no ends")
        for predictor in ("mc_1", "mc_2", "critic")
    ]
    mc_1, mc_2, critic, query_1, query_2, query_critic, *thirds = rows[:-3]
    no_ends = rows[-3:]
    # Single draws predict (1, 1, 0), (1, 0, 0), (0, 0, 1), (1, 0, 0): the first is taken with
    # chance 1/2, 1, 0, 1, and the two pairs score 3/2, 2, 1/2, 2.
    assert (query_1.top1, query_1.pairwise) == (2.5 / 4, 6 / 8)
    # Pairs of draws predict (1, 1/2, 0), (1/2, 0, 1/2): chance 1, 1/2 and scores 2, 3/2.
    assert (query_2.top1, query_2.pairwise) == (0.75, 3.5 / 4)
    assert (query_critic.top1, query_critic.pairwise) == (0.5, 0.75)
    # In r the critic orders all three pairs, the draws none but (1, 2), where they tie.
    assert [row.top1 for row in thirds] == [0, 0, 1, 1, 1, 0]
    assert [row.pairwise for row in thirds] == [1 / 6, 1 / 6, 1, 1, 1, 0]
    # In q one of the steps ends the response.
    assert [(row.num_states, row.pairwise) for row in no_ends] == [(1, 1 / 6), (1, 1 / 6), (1, 1)]
    # The step boundaries without the query: q has two resolved pairs, r three.
    assert (mc_1.num_states, mc_1.top1, mc_1.pairwise) == (2, 0.5, (2 + 0.5) / 5)
    assert (mc_2.top1, mc_2.pairwise) == (mc_1.top1, mc_1.pairwise)
    assert (critic.top1, critic.pairwise) == (0.5, 3 / 5)
    assert (critic.top1_difference, critic.pairwise_difference) == (0, 3 / 5 - 0.5)
    assert (mc_2.top1_difference, mc_2.top1_difference_low) == (0, 0)
    # Of two problems a quarter of the resamples is q alone, a quarter r alone.
    assert (critic.top1_low, critic.top1_high) == (0, 1)
    assert (critic.top1_difference_low, critic.top1_difference_high) == (-1, 1)
    assert (query_1.top1_low, query_1.top1_high) == (None, None)


def test_the_seeds_of_a_name_are_pooled_on_their_problems(tmp_path):
    of_seeds = (MIDDLE, EARLY)
    tables = [
        write_table(tmp_path, steps, seed=seed)
        for seed, steps in zip((2, 1), of_seeds, strict=True)
    ]
    other = write_table(tmp_path, MIDDLE, run="vineppo")
    rows = [row for row in rows_of([*tables, other], [1]) if row.group == "boundaries"]
    assert [(row.name, row.seed, row.num_seeds, row.predictor) for row in rows] == [
        (name, seed, num_seeds, predictor)
        for name, seed, num_seeds in (
            ("ppo", "1", 1), ("ppo", "2", 1), ("ppo", "all", 2), ("vineppo", "1", 1)
        )
        for predictor in ("mc_1", "critic")
    ]  # fmt: skip
    (together,) = rows_of([write_table(tmp_path, (*MIDDLE, *EARLY))], [1])[:1]
    of_all = rows[4]
    for name in ("num_states", "num_problems", "top1", "top1_low", "top1_high", "pairwise"):
        assert getattr(of_all, name) == getattr(together, name)
    assert of_all.num_dropped_states == 2 * (7 - 1)
    # A problem that both seeds met is one cluster, of which nothing can be drawn anew.
    twice = [write_table(tmp_path, MIDDLE, seed=seed) for seed in (1, 2)]
    assert rows_of(twice, [1])[-1].top1_low is None


def test_the_tables_alone_give_the_same_files_and_need_no_torch(tmp_path):
    for checkpoint in (0, 4):
        write_table(tmp_path / "a", checkpoint=checkpoint)
    code = (
        "import sys; from analysis.__main__ import main; status = main(sys.argv[1:]);"
        "assert not {'torch', 'vllm'} & sys.modules.keys(); sys.exit(status)"
    )
    found = []
    for out in (tmp_path / "a", tmp_path / "again"):
        arguments = ["action-ranking", str(tmp_path / "a"), f"--out={out}", "--continuations=1,2"]
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        tables = [str(path) for path in find_tables(tmp_path / "a", FOLDER)]
        assert done.stdout.split() == [*tables, *(str(out / name) for name in FILES)]
        found.append({name: (out / name).read_bytes() for name in FILES})
    assert found[0] == found[1]


def test_the_figure_shows_the_numbers(tmp_path):
    rows = accuracies([read_states(write_table(tmp_path))], [1])
    with figures.panels(1, 2) as (_, axes):
        looks = styles(["mc_1", "critic"])
        draw_method(axes, rows, looks)
        top1, pairwise = (
            {(round(x), line.get_color()): y for line in axis.get_lines()
             for x, y in line.get_xydata()}
            for axis in axes
        )  # fmt: skip
        mc, critic = looks["mc_1"]["color"], looks["critic"]["color"]
        assert axes[0].get_title(loc="left") == "PPO, seed 1, iteration 4"
        assert [text.get_text() for text in axes[1].get_xticklabels()] == [
            "all\n(1)", "query\n(1)", "middle\nthird\n(1)",
        ]  # fmt: skip
        assert (top1[0, mc], top1[0, critic]) == (1, 0)
        assert pairwise == {(0, mc): 1, (1, mc): 0.75, (2, mc): 1,
                            (0, critic): 0, (1, critic): 0.75, (2, critic): 0}  # fmt: skip


def cut_off(path):
    path.write_bytes(path.read_bytes()[:100])


def rewrite(**changes):
    return lambda path: write_parquet(path, [QUERY[0] | changes, *QUERY[1:], *MIDDLE], SCHEMA)


def only_over(path):
    write_parquet(path, OVER, SCHEMA)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_off, "{table} is no complete parquet file: "),
        (rewrite(num_correct=257), "{table}, row 1: num_correct must be in 0..num_samples"),
        (rewrite(draws_D=(1,)), "{table}: all rows must have one checkpoint, num_samples and"),
        (rewrite(alternative_index=3), "{table}: the alternatives of p/0/0 are not whole"),
        (only_over, "no state has 3 next steps to rank"),
    ],
)
def test_a_bad_table_is_one_clear_line(tmp_path, capsys, damage, message):
    table = write_table(tmp_path)
    damage(table)
    assert main(["action-ranking", str(tmp_path), "--continuations=1"]) == 2
    error = capsys.readouterr().err
    message = message.format(table=table, settings=settings_path(table))
    assert error.startswith("error: " + message)
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tables}", "--continuations=5"], "has 4 draws a step, too few for --continuations 5"),
        (["{tables}", "--continuations=0,1"], "whole numbers from 1 with commas, got '0,1'"),
        (["{empty}"], "holds no run (no config.json)"),
        (["{empty}", "--draws=8"], "--draws must be at least 9, got 8"),
        (["nowhere"], "nowhere is no directory"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path, capsys, arguments, message):
    names = {"tables": tmp_path / "tables", "empty": tmp_path}
    write_table(names["tables"])
    assert main(["action-ranking", *(text.format(**names) for text in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
