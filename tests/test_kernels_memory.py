"""Copies keep every element whatever the layouts; slabs are used again and freed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wavetrim.kernels.memory import PinnedSlabs, copy_matrix

Matrix = NDArray[Any]

LAYOUTS: dict[str, Callable[[Matrix], Matrix]] = {
    "row-major": np.ascontiguousarray,
    "column-major": np.asfortranarray,
    "padded": lambda matrix: np.pad(matrix, ((0, 0), (0, 5)))[:, : matrix.shape[1]],
    "skipping": lambda matrix: np.repeat(np.repeat(matrix, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda matrix: np.ascontiguousarray(matrix[::-1, ::-1])[::-1, ::-1],
}


@given(
    rows=st.integers(1, 200),
    columns=st.integers(1, 200),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    source=st.sampled_from(sorted(LAYOUTS)),
    target=st.sampled_from(sorted(LAYOUTS)),
)
def test_a_copy_between_any_two_layouts_keeps_every_element(
    rows: int, columns: int, dtype: str, source: str, target: str
) -> None:
    values = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    copied = LAYOUTS[target](np.full_like(values, -1))
    copy_matrix(copied, LAYOUTS[source](values))
    assert np.array_equal(copied, values)


@pytest.mark.gpu
def test_a_slab_is_seen_as_a_matrix_with_a_pitch() -> None:
    slabs = PinnedSlabs(1, 1 << 16)
    slab = slabs.acquire()
    view = slab.view((5, 7), 16, np.dtype(np.float32))
    view[...] = np.arange(35).reshape(5, 7)
    assert (view.shape, view.strides) == ((5, 7), (64, 4))
    assert view.ctypes.data == slab.pointer
    assert slab.view((1, 16), 16, np.dtype(np.float32))[0, 6] == 6
    del view
    slabs.release(slab)
    slabs.close()


@pytest.mark.gpu
def test_slabs_are_used_again_and_freed() -> None:
    slabs = PinnedSlabs(2, 1 << 16)
    first, second = slabs.acquire(), slabs.acquire()
    slabs.release(first)
    assert slabs.acquire() is first
    slabs.release(first)
    slabs.release(second)
    slabs.close()
    assert (first.pointer, second.pointer) == (0, 0)
