"""What a table was made with: whose run it is of, and that of another is not taken for it."""

from pathlib import Path

import pytest
from support.sampled_runs import CONFIGS

from analysis.sampling.journal import is_made, write_settings
from analysis.sampling.policies import choose_checkpoints
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.run_dir import RunDir


def write_config(path, name, seed):
    settings = [f"name={name}", f"seed={seed}"]
    config = load_config(TrainConfig, str(CONFIGS / "demo_vineppo.jsonnet"), settings)
    RunDir.open(path, to_dict(config))
    return path


def settings_of(path, **settings):
    (one,) = choose_checkpoints([path], "0", Path("out"), "folder", settings)
    assert one.table == Path("out/folder/run/iter_000000.parquet")
    return one.settings


def test_a_run_of_the_same_directory_name_has_another_table(tmp_path):
    vine, ppo, other_seed = (
        write_config(tmp_path / name / str(seed) / "run", name, seed)
        for name, seed in (("vine", 1), ("ppo", 1), ("vine", 2))
    )
    made = settings_of(vine, num_samples=8, seed=0)
    assert made == {
        "run": "run", "method": "vine", "run_seed": 1, "checkpoint": 0, "num_samples": 8, "seed": 0,
    }  # fmt: skip
    table = tmp_path / "iter_000000.parquet"
    assert not is_made(table, made)
    table.write_bytes(b"")
    write_settings(table, made)
    assert is_made(table, made)
    for path, message in (
        (ppo, 'was made with method "vine", now it is "ppo"; remove it or give another --out'),
        (other_seed, "was made with run_seed 1, now it is 2"),
    ):
        with pytest.raises(UserError, match=message):
            is_made(table, settings_of(path, num_samples=8, seed=0))
    with pytest.raises(UserError, match="was made with num_samples 8, now it is 9"):
        is_made(table, made | {"num_samples": 9})
