"""What tests of the CPU pool share."""

import pytest


@pytest.fixture(scope="module")
def pool(open_pool):
    """A pool of four threads for a module's tests."""
    with open_pool(4) as pool:
        yield pool
