"""float16 widens exactly, by the C library and by NumPy, in every layout."""

import numpy as np
import pytest

from wavetrim.cpu.halves import widen_halves


@pytest.mark.parametrize("is_compiled", [True, False], ids=["c", "numpy"])
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "one row"])
def test_half_precision_is_widened_exactly(kernel_cache, layout, *, is_compiled):
    every = np.arange(2 * 2**16 + 3, dtype=np.uint32).astype(np.uint16).view(np.float16)
    halves = every[None] if layout == "one row" else every[: 2**17].reshape(128, 1024)
    if layout == "columns":
        halves = np.asfortranarray(halves)
    if layout == "gaps":
        halves = np.hstack([halves, halves])[:, :1021]
    wide = widen_halves(halves, kernel_cache if is_compiled else None)
    assert wide.dtype == np.float32
    assert np.array_equal(wide, halves.astype(np.float32), equal_nan=True)
