"""Problems that the model has no room for are refused, or left out and said so."""

from dataclasses import replace

import pytest

from vineppo.config.load import load_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.encoding import encode_problems
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.recipes.sft import encode_demonstrations
from vineppo.types import Problem

SHORT = Problem("walk/0", "1+1?", "2", "1+1=2\n#### 2")
LONG = Problem("walk/1", "1+1" * 200 + "?", "2", "1+1=2\n#### 2" * 50)


@pytest.fixture(scope="module")
def loaded():
    return load_model("embedded:arithmetic_short", "float32", "sdpa")


@pytest.fixture(scope="module")
def config(configs):
    return load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])


def leaving_out(config):
    return replace(config, task=replace(config.task, too_long="leave_out"))


def test_a_long_problem_is_refused(config, loaded):
    with pytest.raises(UserError, match=r"problem walk/1 has \d+ tokens, which must be"):
        encode_problems(config, loaded, [SHORT, LONG], config.task.too_long)


def test_a_long_train_problem_is_left_out_where_the_config_says_so(config, loaded, capsys):
    prompts = encode_problems(leaving_out(config), loaded, [LONG, SHORT, LONG], "leave_out")
    assert [prompt.problem for prompt in prompts] == [SHORT]
    limit = config.engine.max_model_len - config.sampling.max_tokens
    assert capsys.readouterr().out == (
        "left out 2 of 3 train problems, longer than engine.max_model_len - sampling.max_tokens = "
        f"{limit}: walk/1, walk/1\n"
    )


def test_demonstrations(configs, loaded, capsys):
    config = load_config(SftConfig, str(configs / "sft_arithmetic.jsonnet"), [])
    with pytest.raises(UserError, match=r"problem walk/1 has \d+ tokens, which must be at most"):
        encode_demonstrations(config, loaded, [SHORT, LONG])
    assert len(encode_demonstrations(leaving_out(config), loaded, [SHORT, LONG])) == 1
    assert "left out 1 of 2 train problems, longer than optimization.max_tokens" in (
        capsys.readouterr().out
    )
