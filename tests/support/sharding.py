"""ZeRO 3 that shards: by default it keeps a model as small as the embedded one whole.

As a program, it is `vineppo` under such a ZeRO 3, with a vocabulary projection in many chunks.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from vineppo.deepspeed_module import DeepSpeedModule

# No parameter is too small to be sharded, and none stays gathered after its use.
SHARDING = {
    "stage3_param_persistence_threshold": 0,
    "stage3_max_live_parameters": 0,
    "stage3_max_reuse_distance": 0,
}


@contextmanager
def shard_everything() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        config = DeepSpeedModule._config

        def sharding(self, optimization, dtype):
            found = config(self, optimization, dtype)
            found["zero_optimization"] |= SHARDING
            return found

        patch.setattr(DeepSpeedModule, "_config", sharding)
        yield


if __name__ == "__main__":
    from vineppo.cli import main
    from vineppo.vocabulary import CHUNK_LOGITS

    with shard_everything(), pytest.MonkeyPatch.context() as patch_chunks:
        patch_chunks.setitem(CHUNK_LOGITS, "cpu", 400)  # 19 positions
        sys.exit(main())
