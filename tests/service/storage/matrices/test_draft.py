"""A result on its way to the disk while its rows are computed: which pieces of it are final."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.service.storage.disk.disk_writer import WRITE_BYTES
from wavetrim.service.storage.matrices.draft import find_pieces
from wavetrim.service.storage.matrices.matrix import Matrix


@given(rows=st.integers(1, 3000), row_bytes=st.integers(1, 20_000), data=st.data())
def test_a_piece_is_written_when_all_of_its_rows_are_final(rows, row_bytes, data):
    size = 4096 + rows * row_bytes
    matrix = Matrix("m", rows, row_bytes, "int8", False, 4096, size, Path("m.npy"))
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    for piece in find_pieces(matrix, range(start, stop)):
        first = piece * WRITE_BYTES
        last = min(first + WRITE_BYTES, size)
        assert start == 0 or first >= 4096 + start * row_bytes
        assert last <= 4096 + stop * row_bytes
    assert list(find_pieces(matrix, range(rows))) == list(range(-(-size // WRITE_BYTES)))
