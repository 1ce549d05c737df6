"""What tests of the lab share."""

from pathlib import Path

import pytest

from wavetrim.lab.gpu.stopwatch import Stopwatch


@pytest.fixture
def watch(kernel_cache: Path) -> Stopwatch:
    """A stopwatch of the first GPU."""
    return Stopwatch(0, kernel_cache)
