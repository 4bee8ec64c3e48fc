"""An engine that is taken down takes the process group along, which DeepSpeed keeps for good.

A run has one engine to its end; a test session has several, and trains before and after them.
"""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _lasting_process_group():
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.distributed, "destroy_process_group", lambda *_: None)
        yield
