import pytest
from sharding import shard_everything


@pytest.fixture(autouse=True, scope="module")
def _sharded():
    with shard_everything():
        yield
