"""Diversity: trie and distance by hand, runs of both kinds, the table that redraws."""

import pytest
import torch
from safetensors.torch import load_file
from support.trained_runs import lasting_process_group, trained_path  # noqa: F401

from analysis.__main__ import main, open_analysis
from analysis.notebooks import REPOSITORY
from vineppo.models import ASSETS

NAME = str(REPOSITORY / "experiments/17_without_rl/diversity.py")
DIVERSITY, distance, tree_diversity = (
    getattr(open_analysis(NAME)[0], name) for name in ("DIVERSITY", "distance", "tree_diversity")
)
FILES = ["diversity.png", "diversity.csv"]
SIZES = ["--problems", "4", "--samples", "3"]


@pytest.mark.parametrize(
    ("responses", "diversity"),
    [
        ([(1, 2), (1, 3), (1, 2)], 3 / 6),
        ([(1, 2, 3), (2, 2, 3)], 1),
        ([(1, 2, 3)] * 4, 1 / 4),
        ([(1, 2), (1, 2, 3)], 3 / 5),
    ],
)
def test_the_trie_by_hand(responses, diversity):
    assert tree_diversity(responses) == diversity


@pytest.mark.filterwarnings("error")
def test_the_distance_by_hand():
    models = [torch.nn.Linear(2, 1, bias=False) for _ in range(2)]
    for model, weights in zip(models, ([[3.0, 4.0]], [[0.0, 5.0]]), strict=True):
        model.weight.data = torch.tensor(weights)
    assert distance(*models) == pytest.approx(10**0.5 / 5)
    assert distance(models[0], models[0]) == 0


@pytest.mark.usefixtures("lasting_process_group")
def test_a_run_and_its_table_alone(trained_path, tmp_path, capsys):  # noqa: F811
    first, again = tmp_path / "first", tmp_path / "again"
    assert main([NAME, str(trained_path), "--out", str(first), *SIZES]) == 0
    capsys.readouterr()
    start, last = DIVERSITY.read(first).to_dict("records")
    assert (start["method"], start["iteration"], start["distance"]) == ("start", 0, 0)
    assert (last["method"], last["iteration"]) == ("demo_vineppo", 2)
    before, now = (
        load_file(folder / "model.safetensors")
        for folder in (ASSETS / "arithmetic_short", trained_path / "final" / "policy")
    )
    moved = sum(float((now[name] - weight).square().sum()) for name, weight in before.items())
    size = sum(float(weight.square().sum()) for weight in before.values())
    assert last["distance"] == pytest.approx((moved / size) ** 0.5, rel=0.01)
    for row in (start, last):
        assert 1 / 3 <= row["diversity"] <= row["diversity_high"] <= 1
        assert 0 <= row["pass@1"] <= 1
    assert main([NAME, str(first), "--out", str(again)]) == 0
    assert capsys.readouterr().out.split() == [str(again / name) for name in FILES]
    assert all((first / name).read_bytes() == (again / name).read_bytes() for name in FILES)
