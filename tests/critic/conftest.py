import pytest


@pytest.fixture(autouse=True, scope="module")
def _sharded(sharded):
    pass
