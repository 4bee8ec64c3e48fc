"""Predicted noise is what a simulation of known values has, and the advice follows from it."""

import json
import shutil
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from support.sampled_runs import CONFIGS, write_solved_run

from analysis import advise
from analysis.__main__ import main
from analysis.sampling.evidence import true_parts
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.credit.groups import rloo_advantages
from vineppo.run_dir import RunDir

START, NUM_STEPS, STEP = 0.3, 12, 3  # of a step's tokens the first alone is a choice
PROBLEMS, GROUP = 60, 8
FEW, ALL = (3, 7), tuple(range(NUM_STEPS))
SETTINGS = {"num_iterations": 5, "continuations": (1, 3), "cuts": (1,), "coins": (3,)}
SETTINGS |= {"num_steps": 100_000}
FILES = {"advise.csv", "advise.png"}


class World:
    """Two-way choices: a wrong one at a step of `decisive` ends all hope, others are free."""

    def __init__(self, decisive, num_problems=PROBLEMS, seed=0):
        rng = np.random.default_rng(seed)
        self.right_S = np.full(NUM_STEPS, 0.5)
        self.right_S[list(decisive)] = START ** (1 / len(decisive))
        shape = num_problems, GROUP, NUM_STEPS
        self.is_first = rng.random(shape) < self.right_S
        is_decisive = np.isin(np.arange(NUM_STEPS), decisive)
        is_alive = np.cumprod(self.is_first | ~is_decisive, -1)
        ahead = np.cumprod(np.where(is_decisive, self.right_S, 1)[::-1])[::-1]
        before = np.concatenate([np.ones((*shape[:2], 1)), is_alive], -1)
        self.values = before * np.append(ahead, 1.0)  # [P, G, S + 1], the last is the reward
        self.rewards = self.values[..., -1]
        self.scores = np.where(self.is_first, 1 - self.right_S, -self.right_S)
        self.rng = rng

    def mean(self, k):
        drawn = self.rng.binomial(k, self.values) / k
        drawn[..., -1] = self.rewards
        return drawn

    def moment(self, advantages):
        """A rollout's squared gradient, one parameter a step: two logits double all alike."""
        return ((advantages * self.scores) ** 2).sum(-1).mean()

    def moments(self, continuations=(1, 3)):
        others = (self.rewards.sum(1, keepdims=True) - self.rewards) / (GROUP - 1)
        found = {"rloo": self.moment((self.rewards - others)[..., None])}
        found["exact"] = self.moment(np.diff(self.values))
        for k in continuations:
            drawn = self.mean(k)
            found[f"vine_{k}"] = self.moment(np.diff(drawn))
            joined = (k * drawn + self.rewards[..., None]) / (k + 1)
            found[f"vine_{k}_own"] = self.moment(joined[..., 1:] - drawn[..., :-1])
            drawn[..., 0] = others
            places = np.argsort(self.rng.random((*others.shape, NUM_STEPS - 1)), -1) + 1
            ends = np.full((*others.shape, 1), NUM_STEPS)
            cuts = np.concatenate([0 * ends, places[..., :1], ends], -1)
            advantages = np.zeros(self.scores.shape)
            for low, high in pairwise(np.moveaxis(cuts, -1, 0)):
                at = np.arange(NUM_STEPS)
                inside = (low[..., None] <= at) & (at < high[..., None])
                end = np.take_along_axis(joined, high[..., None], -1)
                begin = np.take_along_axis(drawn, low[..., None], -1)
                advantages += inside * (end - begin)
            found[f"cuts_1_{k}_own"] = self.moment(advantages)
        return {name: moment / found["rloo"] for name, moment in found.items()}

    def rows(self):
        chosen = np.where(self.is_first, self.right_S, 1 - self.right_S)
        for p, g in np.ndindex(*self.rewards.shape):
            logprobs = np.zeros((NUM_STEPS, STEP))
            logprobs[:, 0] = np.log(chosen[p, g])
            yield p, g, {
                "problem_id": f"p{p}", "rollout_index": g, "prompt_ids": [1],
                "response_ids": [2 + g] * NUM_STEPS * STEP, "logprobs": logprobs.ravel().tolist(),
                "text": "", "reward": self.rewards[p, g], "finish_reason": "stop",
                "step_starts": [STEP * step for step in range(NUM_STEPS)],
                "advantages_S": [0.0] * NUM_STEPS,
            }  # fmt: skip

    def write(self, path, config="recipes/oracle", k=0, critic=False):
        """A run with the exact values of a predictor, or K continuations a state."""
        settings = [f"rollouts.num_samples={GROUP}", "seed=1"]
        if k:
            settings.append(f"credit.num_continuations={k}")
        config = load_config(TrainConfig, str(CONFIGS / f"{config}.jsonnet"), settings)
        run_dir = RunDir.open(path, to_dict(config))
        values = []
        for p, g, _ in self.rows():
            for step, value in enumerate(self.values[p, g, :-1]):
                state = {"problem_id": f"p{p}", "rollout_index": g, "step_index": step}
                state |= {"prefix_length": STEP * step, "num_tokens": 0}
                returns = (self.rng.random(k) < value).astype(float).tolist()
                row = state | {"returns_K": returns, "critic_value": value if critic else None}
                if not k:
                    row |= {"predictor": None, "value": None}
                    (name,) = config.values.predictors or ("none",)
                    values.append(row | {"critic_value": None, "predictor": name, "value": value})
                values.append(row)
        run_dir.write_rollouts(1, [row for _, _, row in self.rows()])
        run_dir.write_values(1, values)
        run_dir.append_metrics(
            {"iteration": 1, "time/rollout_s": 1, "time/values_s": 0, "time/grading_s": 0}
            | {"tokens/rollout": 1000, "tokens/values": 0}
            | {"time/logprobs_s": 1, "time/update_s": 3, "time/sync_s": 0}
        )
        return path


@pytest.fixture(scope="module")
def few():
    return World(FEW)


@pytest.fixture(scope="module")
def simulated():
    return World(FEW, 4000, seed=1).moments()


@pytest.fixture(scope="module")
def exact_run(few, tmp_path_factory):
    return few.write(tmp_path_factory.mktemp("runs") / "exact")


def advice_of(path, cost_ratio=None, **changes):
    settings = {**SETTINGS, "cost_ratio": cost_ratio, "fit_iterations": 0} | changes
    return advise.run_rows(path, **settings).set_index("estimator")


@pytest.fixture(scope="module")
def advice(exact_run):
    return advice_of(exact_run)


@pytest.mark.parametrize("k", [0, 3])
def test_a_run_on_the_disk_tells_the_same(k, few, simulated, advice, tmp_path):
    config = "credit_short_vineppo"
    advice = advice_of(few.write(tmp_path / "run", config, k)) if k else advice
    told = {name: noise for name, noise in simulated.items() if name in advice.index}
    assert len(told) == len(simulated)
    for name, noise in told.items():
        assert advice.loc[name, "noise"] == pytest.approx(noise, rel=0.2, abs=0.02), name
        assert advice.loc[name, "noise_low"] <= advice.loc[name, "noise"], name
    order = ["exact", "vine_3", "rloo"]
    assert list(advice.loc[order, "noise"].sort_values().index) == order
    assert list(advice["values_by"].unique()) == ["continuations" if k else "exact"]


def test_prices_follow_from_tokens_and_the_ratio(exact_run, advice):
    """4 s of learning and 1 s of sampling for 1,000 tokens; a problem's iteration has 8 × 36."""
    config = json.loads((exact_run / "config.json").read_text())
    r = 4 / config["rollouts"]["num_prompts"] / (0.001 * GROUP * NUM_STEPS * STEP)
    assert advice["cost_ratio"].iloc[0] == pytest.approx(r)
    left = sum(STEP * step for step in range(1, NUM_STEPS))
    tokens = 1 + 3 * (NUM_STEPS * STEP / GROUP + left) / (NUM_STEPS * STEP)
    row = advice.loc["vine_3"]
    assert row["tokens"] == pytest.approx(tokens)
    assert row["seconds"] == pytest.approx((tokens + r) / (1 + r))
    assert row["noise_seconds"] == pytest.approx(row["noise"] * row["seconds"])
    at = row["break_even"]
    assert row["noise"] * (tokens + at) / (1 + at) == pytest.approx(1)
    assert advice.loc["cuts_1_3_own", "tokens"] == pytest.approx(2.5, rel=0.1)


@pytest.mark.parametrize("is_rloo", [True, False])
def test_true_gradients_are_told_from_noise(is_rloo):
    """One choice of four by a softmax, rewards by problem and arm: all parts are known sums.

    Noise so found is the variance that independent groups show.
    """
    rng, num_problems, size = np.random.default_rng(0), 6000, 3
    chances_A = np.array([0.4, 0.3, 0.2, 0.1])
    rewards_PA = (rng.random((num_problems, 4)) < [0.9, 0.5, 0.2, 0.2]).astype(float)
    scores_AA = np.eye(4) - chances_A
    true_PA = (chances_A * rewards_PA) @ scores_AA
    chosen_PG = rng.choice(4, (num_problems, size), p=chances_A)
    rewards_PG = np.take_along_axis(rewards_PA, chosen_PG, 1)
    values_P1 = (rewards_PA @ chances_A)[:, None]
    credit_PG = rewards_PG - values_P1
    if is_rloo:
        credit_PG = np.array([rloo_advantages(list(of)) for of in rewards_PG])
    rows = (credit_PG[..., None] * scores_AA[chosen_PG]).reshape(-1, 4)
    groups = [
        [SimpleNamespace(problem=SimpleNamespace(id=p)) for _ in range(size)]
        for p in range(num_problems)
    ]
    signal_N, between_N = true_parts(rows, groups)
    true = np.square(true_PA).sum(1).mean()
    signal = true * (1 + is_rloo / (size - 1) ** 2)
    between = signal - np.square(true_PA.mean(0)).sum()
    assert signal_N.mean() == pytest.approx(signal, rel=0.05)
    assert between_N.mean() == pytest.approx(between, rel=0.05)
    shown = np.square(rows.reshape(num_problems, size, 4) - true_PA[:, None]).sum(-1).mean()
    assert np.square(rows).sum(1).mean() - true == pytest.approx(shown, rel=0.02)


def test_few_decisive_steps_and_cheap_sampling_call_for_continuations(exact_run):
    rows = advice_of(exact_run, cost_ratio=30, continuations=(1,)).reset_index()
    best, is_sure = advise.best_of(rows)
    assert is_sure
    assert best["estimator"].startswith(("vine", "cuts"))


def test_where_every_step_decides_and_sampling_is_the_price_rloo_stays(tmp_path):
    path = World(ALL).write(tmp_path / "all")
    rows = advice_of(path, cost_ratio=0, continuations=(1,)).reset_index()
    assert not advise.best_of(rows)[1]
    assert "Stay with **RLOO or GRPO**" in "\n".join(advise.report(rows))


def test_it_writes_and_draws_again(exact_run, tmp_path, capsys):
    out, again = tmp_path / "out", tmp_path / "again"
    options = ["--fit-iterations=0", "--continuations=1", "--cuts=1", f"--out={out}"]
    assert main(["advise", str(exact_run), *options]) == 0
    assert "| estimator | tokens |" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == FILES
    assert main(["advise", str(out), "--out", str(again)]) == 0
    for name in FILES:
        assert (again / name).read_bytes() == (out / name).read_bytes(), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cost-ratio", "-1"], "--cost-ratio must be a number from 0, got -1"),
        (["--cuts", "0"], "argument --cuts: must be whole numbers from 1 with commas, got '0'"),
        (["--iterations", "0"], "--iterations must be at least 1, got 0"),
        (["--checkpoints", "5"], "{run} has no policy of iteration 5 (only of 0)"),
    ],
)
def test_bad_options_are_one_line(arguments, message, exact_run, tmp_path, capsys):
    assert main(["advise", str(exact_run), *arguments, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {message.format(run=exact_run)}\n"


def changed(run, tmp_path, change):
    """A copy of a run with its rollouts changed, and their values left."""
    path = tmp_path / "changed"
    shutil.copytree(run, path)
    (path / "config.lock").unlink(missing_ok=True)
    run_dir = RunDir(path)
    run_dir.write_rollouts(1, change(run_dir.read_rollouts(1)))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [row for row in rows if row["problem_id"] == "p0"], "need two problems"),
        (lambda rows: [r for r in rows if r["rollout_index"] == 0], "RLOO needs two rollouts"),
        (lambda rows: [row | {"reward": 0.5} for row in rows], "rewards must be 0 or 1, got 0.5"),
        (lambda rows: [row | {"reward": 1.0} for row in rows], "no problem has both rewards"),
    ],
)
def test_rollouts_that_tell_nothing_are_one_line(change, message, exact_run, tmp_path, capsys):
    path = changed(exact_run, tmp_path, change)
    assert main(["advise", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_runs_that_hold_too_little_are_one_line(few, tmp_path, capsys):
    config = load_config(TrainConfig, str(CONFIGS / "demo_rloo.jsonnet"), [])
    bare = tmp_path / "bare"
    run_dir = RunDir.open(bare, to_dict(config))
    assert main(["advise", str(bare)]) == 2
    assert capsys.readouterr().err == f"error: {bare} has no saved rollouts\n"
    run_dir.write_rollouts(1, [row for _, _, row in few.rows()])
    assert main(["advise", str(bare)]) == 2
    assert "tells no values of states" in capsys.readouterr().err
    sft = tmp_path / "sft"
    sft.mkdir()
    from vineppo.config.schema import SftConfig

    config = load_config(SftConfig, str(CONFIGS / "sft_arithmetic.jsonnet"), [])
    (sft / "config.json").write_text(json.dumps(to_dict(config)))
    assert main(["advise", str(sft)]) == 2
    assert "is a run of supervised fine-tuning" in capsys.readouterr().err


def test_a_martingale_whose_differences_are_not_saved_is_left_out(exact_run, advice, tmp_path):
    path = shutil.copytree(exact_run, tmp_path / "run")
    config = json.loads((path / "config.json").read_text())
    config["values"]["predictors"]["told"] = {"kind": "privileged"}
    (path / "config.json").write_text(json.dumps(config))
    rows = RunDir(path).read_values(1)
    named = [row | {"predictor": "told"} for row in rows if row["predictor"] is not None]
    RunDir(path).write_values(1, [*rows, *named])
    assert list(advice_of(path).index) == list(advice.index)


def test_values_are_fitted_where_none_are_saved(tmp_path, monkeypatch):
    """The demo's starting policy stands in for the final one; a wrong twin for every answer."""
    from vineppo.models import resolve_model_path

    monkeypatch.setattr("analysis.sampling.held_out.LEAST_STEPS", 32)
    path = write_solved_run(tmp_path / "run", num_problems=8, iterations=(1, 2))
    run_dir = RunDir(path)
    for iteration in (1, 2):
        rows = run_dir.read_rollouts(iteration)
        run_dir.write_rollouts(
            iteration, [row | {"reward": float(row["rollout_index"])} for row in rows]
        )
    model = run_dir.read_config()["model"]["path"]
    shutil.copytree(resolve_model_path(model), path / "final" / "policy")
    one = {"cost_ratio": 1, "fit_iterations": 5, "continuations": (1,), "cuts": (1,)}
    advice = advice_of(path, **one)
    assert list(advice["values_by"].unique()) == ["fitted martingale"]
    assert advice["has_exact_scores"].all()
    assert np.isfinite(advice["spread"]).all()
    assert np.isfinite(advice.loc["martingale_posterior", "noise"])
    assert advice.loc["martingale_posterior", "tokens"] == 1
    last = run_dir.last_logged_iteration()
    run_dir.write_rollouts(last + 1, run_dir.read_rollouts(2))
    of_all, of_checkpoint = (advice_of(path, **one, checkpoints=i) for i in ("last", str(last)))
    assert of_all["last_iteration"].unique().tolist() == [last + 1]
    assert of_checkpoint["last_iteration"].max() <= last
