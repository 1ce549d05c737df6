from pathlib import Path

import pytest

from tests.kernels.compute_sanitizer import run_compute_sanitizer
from tests.kernels.specs import SPECS


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compute_sanitizer_finds_nothing_in_any_kernel(tool: str, kernel_cache: Path) -> None:
    program = Path(__file__).with_name("sanitizer_driver.py")
    printed = run_compute_sanitizer(tool, program, kernel_cache)
    for spec in SPECS:
        assert (spec.label in printed) == (not spec.is_cublas)
