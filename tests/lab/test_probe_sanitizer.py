from pathlib import Path

import pytest

from tests.kernels.test_sanitizer import run_compute_sanitizer


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compute_sanitizer_finds_nothing_in_any_probe(tool, kernel_cache):
    program = Path(__file__).with_name("sanitizer_probes.py")
    assert "\n34\n" in "\n" + run_compute_sanitizer(tool, program, kernel_cache)
