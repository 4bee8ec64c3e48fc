"""What a table was made with: whose run it is of, and that of another is not taken for it."""

import json

import pytest

from analysis.sampling.journal import ADDED
from analysis.sampling.settings_file import is_made, of_checkpoint, write_settings
from vineppo.errors import UserError


def write_config(path, **config):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_a_run_of_the_same_directory_name_has_another_table(tmp_path):
    vine, ppo, other_seed = (
        write_config(tmp_path / name / str(seed) / "run", name=name, seed=seed)
        for name, seed in (("vine", 1), ("ppo", 1), ("vine", 2))
    )
    made = of_checkpoint(vine, 4, {"num_samples": 8, "seed": 0})
    assert made == {
        "run": "run", "method": "vine", "run_seed": 1, "checkpoint": 4, "num_samples": 8, "seed": 0,
    }  # fmt: skip
    table = tmp_path / "iter_000004.parquet"
    assert not is_made(table, made)
    table.write_bytes(b"")
    write_settings(table, made)
    assert is_made(table, made)
    settings = {"num_samples": 8, "seed": 0}
    for path, message in (
        (ppo, 'was made with method "vine", now it is "ppo"; remove it or give another --out'),
        (other_seed, "was made with run_seed 1, now it is 2"),
    ):
        with pytest.raises(UserError, match=message):
            is_made(table, of_checkpoint(path, 4, settings))
    # Tables from before they said whose they are.
    write_settings(table, {key: value for key, value in made.items() if key not in ADDED})
    assert is_made(table, made)
    with pytest.raises(UserError, match="was made with num_samples 8, now it is 9"):
        is_made(table, made | {"num_samples": 9})
