"""Whether a matrix lies in its memory: compared with its bytes, one by one."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.engine.operands import view_memory
from wavetrim.scheduler.errors import SlabError

COUNTS = st.integers(0, 5)
STRIDES = st.tuples(st.integers(-40, 80), st.integers(-40, 80))


@given(
    st.integers(0, 200), st.integers(-8, 200), COUNTS, COUNTS, st.sampled_from([1, 2, 4, 8]),
    STRIDES,
)  # fmt: skip
def test_an_accepted_matrix_lies_in_the_memory_and_covers_no_byte_twice(
    size, offset, rows, columns, item, strides
):
    try:
        place = Operand(1, offset, rows, columns, f"int{8 * item}", strides_bytes=strides)
        down, across = view_memory(place, np.zeros(size, np.uint8)).strides
    except SlabError:
        return
    begins = [offset + i * down + j * across for i, j in product(range(rows), range(columns))]
    touched = [begin + byte for begin in begins for byte in range(item)]
    assert bool(touched) == bool(rows and columns)
    assert 0 <= offset <= size
    assert all(0 <= byte < size for byte in touched)
    assert len(set(touched)) == len(touched)
    assert all(begin % item == 0 for begin in begins)
    assert rows == 1 or not touched or down == strides[0]
    assert columns == 1 or not touched or across == strides[1]


@given(COUNTS, COUNTS, st.sampled_from([1, 8]), st.booleans(), st.integers(0, 100))
def test_a_contiguous_matrix_is_accepted_wherever_it_fits(
    rows, columns, item, fortran_order, offset
):
    strides = (item, rows * item) if fortran_order else (columns * item, item)
    fits = offset % item == 0 and offset + rows * columns * item <= 100
    for given_strides in (strides, None):
        try:
            place = Operand(
                1, offset, rows, columns, f"int{8 * item}", fortran_order, given_strides
            )
            assert view_memory(place, np.zeros(100, np.uint8)).shape == (rows, columns)
        except SlabError:
            assert not fits
        else:
            assert fits
