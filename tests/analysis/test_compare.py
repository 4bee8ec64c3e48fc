"""Methods compared over seeds and settings: known effects, tables that redraw, refusals."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from analysis import counts
from analysis.__main__ import main
from analysis.compare import (
    COMPARISONS,
    compared,
)
from analysis.stats.comparison import permutation_p, welch
from vineppo.run_dir import RunDir

SEEDS = (1, 2, 3, 4)
NUM_PROBLEMS, NUM_SAMPLES = 40, 16
FILES = (
    "evaluations.parquet",
    "runs.json",
    "compare.csv",
    "compare.png",
)


def write_run(path, name, seed, counts_XP, *, operations=4, speed=1.0, tokens=1000):
    """Evaluated at 0, 10, 20, …: a row of counts each; an iteration takes 1/speed seconds."""
    task = {"kind": "arithmetic", "operations": operations, "prompt": name}
    config = {"name": name, "seed": seed, "task": task, "model": {"path": "there/tiny"}}
    run_dir = RunDir.open(path, config)
    for iteration in range(1, 10 * (len(counts_XP) - 1) + 1):
        times = {"time/elapsed_s": iteration / speed, "tokens/rollout": tokens}
        run_dir.append_metrics({"iteration": iteration, **times})
    for index, counts_P in enumerate(np.asarray(counts_XP).tolist()):
        evaluation = {
            "pass@1": sum(counts_P) / len(counts_P) / NUM_SAMPLES,
            "num_problems": len(counts_P),
            "samples_per_problem": NUM_SAMPLES,
            "problem_ids": [f"p{number}" for number in range(len(counts_P))],
            "num_correct_P": counts_P,
        }
        run_dir.write_evaluation(10 * index, evaluation)
    return path


def write_pair(folder, setting, seed, effect, names=("vineppo", "ppo"), seeds=SEEDS, **options):
    """Runs of two methods whose last evaluations differ by that effect."""
    generator = np.random.default_rng(seed)
    rates_2S1 = np.array([0.45 + effect, 0.45])[:, None, None]
    rates_2S1 = rates_2S1 + generator.normal(0, 0.02, (2, len(seeds), 1))
    counts_2SP = generator.binomial(NUM_SAMPLES, rates_2S1, (2, len(seeds), NUM_PROBLEMS))
    start_P = np.full(NUM_PROBLEMS, 4)
    return [
        write_run(
            folder / f"{setting}_{name}_{run}", f"{setting}_{name}", run, counts_XP, **options
        )
        for name, counts_SP in zip(names, counts_2SP, strict=True)
        for run, counts_XP in zip(seeds, ([start_P, last_P] for last_P in counts_SP), strict=True)
    ]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    write_pair(folder, "short", 0, 0.2)
    write_pair(folder, "long", 1, 0.1, operations=9)
    return folder


@pytest.fixture
def settings(built, tmp_path):
    shutil.copytree(built, tmp_path / "runs")
    return sorted((tmp_path / "runs").iterdir(), reverse=True)


def rows_of(*paths):
    return counts.read(list(paths))[0]


def found_at(paths, at="iteration", baseline="PPO"):
    return compared(rows_of(*paths), baseline, at)


def one(found, **cells):
    for name, cell in cells.items():
        found = found[found[name] == cell]
    assert len(found) == 1
    return found.iloc[0]


def last_counts(paths):
    return np.array([RunDir(path).read_evaluation(10)["num_correct_P"] for path in sorted(paths)])


def test_an_effect_is_that_of_the_statistics_on_the_scores(settings):
    row = one(found_at(settings), setting="short")
    short = [path for path in settings if path.name.startswith("short")]
    vine_SP, ppo_SP = (
        last_counts([path for path in short if f"_{name}_" in path.name])
        for name in ("vineppo", "ppo")
    )
    vine_S, ppo_S = vine_SP.mean(axis=1) / NUM_SAMPLES, ppo_SP.mean(axis=1) / NUM_SAMPLES
    expected = welch(vine_S, ppo_S)
    effect = expected.effect
    numbers = (effect.value, effect.low, effect.high, expected.df, expected.p_value)
    cells = row[["effect", "effect_low", "effect_high", "df", "p_t"]]
    assert tuple(cells) == pytest.approx(numbers)
    assert row["p_permutation"] == permutation_p(vine_S, ppo_S)
    assert (row["method"], row["baseline"], row["axis"], row["at"]) == (
        "VinePPO", "PPO", "iteration", 10,
    )  # fmt: skip
    assert (row["num_seeds"], row["num_seeds_baseline"], row["num_samples"]) == (4, 4, 640)
    rates = np.concatenate([vine_SP, ppo_SP]) / NUM_SAMPLES
    noise = (rates * (1 - rates) / (NUM_SAMPLES - 1)).sum(axis=1).mean() / NUM_PROBLEMS**2
    assert row["noise_sd"] == pytest.approx(noise**0.5)
    assert row["is_extrapolated"] == 0


def test_several_baselines_are_one_long_table(settings, tmp_path):
    out, alone = tmp_path / "both", tmp_path / "alone"
    given = ["compare", *map(str, settings)]
    assert main([*given, "--baseline=PPO", "--baseline=VinePPO", f"--out={out}"]) == 0
    assert main([*given, "--baseline=PPO", f"--out={alone}"]) == 0
    both, one_alone = (COMPARISONS.read(folder) for folder in (out, alone))
    assert list(both["baseline"]) == ["PPO", "PPO", "VinePPO", "VinePPO"]
    pd.testing.assert_frame_equal(both[:2], one_alone)
    assert list(both["effect"][2:]) == pytest.approx(list(-both["effect"][:2]))


@pytest.mark.parametrize(("tokens", "expected"), [(250, 0), (50, 1)])
def test_a_budget_before_the_first_evaluation_is_marked(tmp_path, tokens, expected, capsys):
    steps = [np.full(8, count) for count in (0, 8, 16)]
    paths = [
        write_run(tmp_path / f"{name}{seed}", name, seed, steps, tokens=own)
        for name, own in (("vineppo", 500), ("ppo", tokens))
        for seed in (1, 2)
    ]
    assert one(found_at(paths, "tokens"))["is_extrapolated"] == expected
    main(["compare", *map(str, paths), "--baseline=PPO", "--at=tokens", f"--out={tmp_path}"])
    assert ("†" in capsys.readouterr().out) == bool(expected)


def test_equal_costs_are_read_off_between_the_evaluations(tmp_path):
    """PPO makes 20 iterations in 10 s, VinePPO 20 in 40 s: after 10 s it is at iteration 5."""
    steps = [np.full(8, count) for count in (0, 8, 16)]
    paths = [
        *(write_run(tmp_path / f"a{seed}", "vineppo", seed, steps, speed=0.5) for seed in (1, 2)),
        *(
            write_run(tmp_path / f"b{seed}", "ppo", seed, steps, speed=2, tokens=250)
            for seed in (1, 2)
        ),
    ]
    seconds = one(found_at(paths, "seconds"))
    assert (seconds["axis"], seconds["at"]) == ("elapsed_s", 10)
    assert seconds["effect"] == pytest.approx(0.25 - 1)
    tokens = one(found_at(paths, "tokens"))
    assert (tokens["axis"], tokens["at"]) == ("tokens_sampled", 5000)
    assert tokens["effect"] == pytest.approx(0.25 - 1)
    assert one(found_at(paths, "10"))["effect"] == 0
    # Halfway between two evaluations the noise is that of the mean of both.
    of_a = rows_of(*paths).query("method == 'vineppo'")
    ends = [counts.measure(of_a, "iteration", at).noise_S[0] for at in (0, 10)]
    assert counts.measure(of_a, "iteration", 5).noise_S[0] == pytest.approx(sum(ends) / 4)


def test_the_committed_table_gives_the_same_files_bit_by_bit(settings, tmp_path, capsys):
    def files(*paths, out):
        assert main(["compare", *map(str, paths), "--baseline", "PPO", "--out", str(out)]) == 0
        return {name: (out / name).read_bytes() for name in FILES}

    first = files(*settings, out=tmp_path / "out")
    assert [line for line in capsys.readouterr().out.splitlines() if "|" not in line] == [
        str(tmp_path / "out" / name) for name in FILES
    ]
    assert files(tmp_path / "out", out=tmp_path / "again") == first
    assert files(tmp_path / "out", out=tmp_path / "out") == first  # over the table itself
    by_setting = []
    for name in ("short", "long"):
        by_setting.append(tmp_path / name)
        files(*(path for path in settings if path.name.startswith(name)), out=by_setting[-1])
    assert files(*by_setting, out=tmp_path / "both") == first


def test_the_configs_commits_and_environments_stand_beside_the_counts(settings, tmp_path):
    out = tmp_path / "out"
    assert main(["compare", *map(str, settings), "--baseline", "PPO", "--out", str(out)]) == 0
    content = json.loads((out / "runs.json").read_text())
    assert len(content["runs"]) == len(settings)
    assert len(content["configs"]) == 4  # of each name one: seeds share it
    about = next(of for of in content["runs"] if of["run_dir"].endswith("long_ppo_2"))
    assert (about["method"], about["seed"], about["setting"]) == ("long_ppo", 2, "long")
    config = json.loads((settings[0].parent / "long_ppo_2" / "config.json").read_text())
    assert content["configs"][about["config"]] | {"seed": 2} == config
    (environment,) = (content["environments"][name] for name in about["environments"])
    assert {"packages", "source", "hardware", "python"} == set(environment)
    rows = pd.read_parquet(out / "evaluations.parquet")
    assert len(rows) == len(settings) * 2 * NUM_PROBLEMS
    assert list(rows.columns) == list(counts.SCHEMA.names)


def other_problems(path):
    evaluation = RunDir(path).read_evaluation(10)
    evaluation["problem_ids"][0] = "another"
    RunDir(path).write_evaluation(10, evaluation)


def too_many(path):
    evaluation = RunDir(path).read_evaluation(10)
    evaluation["num_correct_P"][0] = NUM_SAMPLES + 1
    RunDir(path).write_evaluation(10, evaluation)


def other_task(path):
    config = json.loads((path / "config.json").read_text())
    config["task"]["operations"] = 5
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            other_problems,
            "{runs}/long_ppo_1 at 0 and {path} at 10 are both of the setting long, but were "
            "evaluated on different problems",
        ),
        (too_many, "{path}: evaluation 10 cannot have 17 right of 16 answers to p0"),
        (other_task, "are both of the setting long, but task.operations is "),
    ],
)
def test_runs_that_cannot_be_compared_are_one_clear_line(settings, capsys, damage, message):
    runs = settings[0].parent
    path = runs / "long_ppo_2"
    damage(path)
    long = sorted(path for path in settings if path.name.startswith("long"))
    assert main(["compare", *map(str, long), "--baseline", "PPO"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message.format(path=path, runs=runs) in error


@pytest.mark.parametrize(
    ("names", "arguments", "message"),
    [
        (["short_ppo_1"], [], "the following arguments are required: --baseline"),
        (["short_ppo_1"], ["--baseline=PPO"], "short has nothing to compare with short_ppo"),
        (
            ["short_ppo_1", "short_vineppo_1"],
            ["--baseline=GRPO"],
            "--baseline: short has no GRPO (only short_ppo (PPO), short_vineppo (VinePPO))",
        ),
        (
            ["short_ppo_1", "short_vineppo_1"],
            ["--baseline=PPO", "--at=7"],
            "short: not all runs were evaluated at 7 (only at 0, 10)",
        ),
        (
            ["short_ppo_1", "short_vineppo_1"],
            ["--baseline=PPO", "--at=late"],
            "--at must be iteration, tokens, seconds or a number, got 'late'",
        ),
        (
            ["short_ppo_1", "short_ppo_1"],
            ["--baseline=PPO"],
            "{runs}/short_ppo_1 is given twice, or has problem p0 twice",
        ),
        (
            ["short_ppo_1", "short_vineppo_1"],
            ["--baseline=PPO", "--without=GRPO"],
            "--without: there is no GRPO (only PPO, VinePPO)",
        ),
        (["nowhere"], ["--baseline=PPO"], "{runs}/nowhere is no directory"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(settings, capsys, names, arguments, message):
    runs = settings[0].parent
    assert main(["compare", *(str(runs / name) for name in names), *arguments]) == 2
    assert capsys.readouterr().err == f"error: {message.format(runs=runs)}\n"
