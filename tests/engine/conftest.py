"""The embedded policy as the trainer holds it, a prompt, and a process group that lasts."""

import pytest
import torch
from support.engines import MODEL, QUESTION

from vineppo.models import load_model


@pytest.fixture(scope="module")
def loaded():
    return load_model(MODEL, "float32", "sdpa")


@pytest.fixture
def prompt(loaded):
    return tuple(loaded.tokenizer(QUESTION)["input_ids"])


@pytest.fixture(autouse=True, scope="session")
def _lasting_process_group():
    """An engine that is taken down takes the process group along, which DeepSpeed keeps for good.

    A run has one engine to its end; a test session has several, and trains before and after them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "destroy_process_group", lambda *_: None)
        yield
