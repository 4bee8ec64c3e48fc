"""A small run of VinePPO with a critic and others beside it, really trained, once a session."""

import json

import pytest
from filelock import FileLock

from support.page import page_predictors
from support.training import CONFIGS, shared_folder, train
from vineppo.config.load import complete, evaluate_jsonnet

NUM_PROMPTS, NUM_SAMPLES, NUM_CONTINUATIONS, NUM_ITERATIONS = 6, 4, 4, 2
SMALL = {"batch_size": 12, "micro_batch_size": 3}
SETTINGS = {
    "num_iterations": NUM_ITERATIONS,
    "rollouts.num_prompts": NUM_PROMPTS,
    "rollouts.num_samples": NUM_SAMPLES,
    "credit.num_continuations": NUM_CONTINUATIONS,
    **{f"optimization.{key}": size for key, size in SMALL.items()},
    "optimization.learning_rate": 1e-4,
    "task.num_train_problems": 40,
    "task.num_test_problems": 8,
    "evaluation.every": 2,
    "evaluation.num_samples": 2,
    "checkpoint.every": 1,
    "checkpoint.keep": 2,
}


@pytest.fixture(scope="session")
def lasting_process_group():
    """An engine that is taken down would take the process group along, which others go on using."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "destroy_process_group", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def trained_path(tmp_path_factory):
    """Checkpoints 1 and 2 beside the start; evaluated at 0 and 2; its name is "tiny"."""
    path = shared_folder(tmp_path_factory, "trained") / "tiny"
    with FileLock(f"{path}.lock"):
        if (path / "final").exists():  # a fixture is made once in every module that imports it
            return path
        critic = complete(evaluate_jsonnet(str(CONFIGS / "demo_ppo.jsonnet")))["critic"]
        settings = {**SETTINGS, "critic": json.dumps(critic | SMALL)}
        predictors = page_predictors(tmp_path_factory.mktemp("mine"))
        predictors["tuned"] = critic | SMALL | {"learning_rate": 3e-3}
        settings["values.predictors"] = json.dumps(predictors)
        train(path, "demo_vineppo", settings)
    return path
