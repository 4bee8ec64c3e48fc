"""Shared settings: nothing is fetched, and nothing is sent."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from support.training import WholeRuns

    from vineppo.config.schema import TrainConfig
    from vineppo.models import LoadedModel

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # more threads only wait for each other here

# An example may take as long as the machine lets it.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

ROOT = Path(__file__).parent.parent

# Imports make millions of objects that live to the end: no pass over them, now or later, frees any.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


class Failures:
    """Named when they happen: a run that is cut short has no summary."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            last = "\n".join(report.longreprtext.splitlines()[-15:])
            self._reporter.line(f"\nFAILED {report.nodeid} ({report.when})\n{last}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(reporter))


@pytest.fixture(scope="session")
def configs() -> Path:
    return ROOT / "configs"


@pytest.fixture(scope="module")
def config(configs: Path) -> "TrainConfig":
    """The demo's."""
    from vineppo.config.load import load_config
    from vineppo.config.schema import TrainConfig

    return load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])


@pytest.fixture(scope="module")
def loaded(_lasting_process_group: None) -> "LoadedModel":
    """The embedded policy as the trainer holds it."""
    from support.engines import MODEL

    from vineppo.models import load_model

    return load_model(MODEL, "float32", "sdpa")


@pytest.fixture
def prompt(loaded: "LoadedModel") -> tuple[int, ...]:
    from support.engines import QUESTION

    return tuple(loaded.tokenizer(QUESTION)["input_ids"])


@pytest.fixture(scope="session")
def _lasting_process_group() -> Iterator[None]:
    """An engine that is taken down takes the process group along, which DeepSpeed keeps for good.

    A run has one engine to its end; a test session has several, and trains before and after them.
    """
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "destroy_process_group", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def sharded() -> Iterator[None]:
    """ZeRO 3 shards even the smallest parameter."""
    from support.sharding import shard_everything

    with shard_everything():
        yield


@pytest.fixture(scope="session")
def whole_runs(tmp_path_factory: pytest.TempPathFactory) -> "WholeRuns":
    """Small runs of the demo's configs, which all tests share, those of other workers too."""
    from support.training import WholeRuns, shared_folder

    return WholeRuns(shared_folder(tmp_path_factory, "whole_runs"))
