"""What tests of the CPU pool share."""

from collections.abc import Callable, Iterator

import pytest

from wavetrim.cpu.gemm import CpuPool


@pytest.fixture(scope="module")
def pool(open_pool: Callable[[int], CpuPool]) -> Iterator[CpuPool]:
    """A pool of four threads for a module's tests."""
    with open_pool(4) as pool:
        yield pool
