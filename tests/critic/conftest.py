"""ZeRO 3 that shards: by default it keeps a model as small as the embedded one whole."""

import pytest

from vineppo.deepspeed_module import DeepSpeedModule

# No parameter is too small to be sharded, and none stays gathered after its use.
SHARDING = {
    "stage3_param_persistence_threshold": 0,
    "stage3_max_live_parameters": 0,
    "stage3_max_reuse_distance": 0,
}


@pytest.fixture(autouse=True, scope="session")
def _shard_everything():
    with pytest.MonkeyPatch.context() as patch:
        config = DeepSpeedModule._config

        def sharding(self, optimization, dtype):
            found = config(self, optimization, dtype)
            found["zero_optimization"] |= SHARDING
            return found

        patch.setattr(DeepSpeedModule, "_config", sharding)
        yield
