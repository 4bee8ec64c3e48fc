"""ZeRO 3 that shards: by default it keeps a model as small as the embedded one whole.

As a program, it is `main`; a rank of it that sees the path of KILLED_ONCE dies.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.killing import killed_once
from vineppo.policy import DeepSpeedModule

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


def main(given: list[str]) -> int:
    """`vineppo` under such a ZeRO 3, with a vocabulary projection in many chunks."""
    from vineppo import cli, token_scores
    from vineppo.token_scores import CHUNK_LOGITS

    with shard_everything(), pytest.MonkeyPatch.context() as patch:
        patch.setitem(CHUNK_LOGITS, "cpu", 400)  # 19 positions
        patch.setattr(token_scores, "MIN_PROJECTED", 1)
        return cli.main(given)


if __name__ == "__main__":
    if "KILLED_ONCE" in os.environ:
        killed_once(Path(os.environ["KILLED_ONCE"]))
    sys.exit(main(sys.argv[1:]))
