"""Where threads share K: only for a small C, and each part of K once."""

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.cpu.blocks import cut_depth

sizes = st.integers(1, 700)


@given(m=sizes, n=sizes, k=st.integers(1, 10**6), threads=st.integers(1, 64))
def test_k_is_cut_only_where_c_is_small_and_is_covered_once(m, n, k, threads):
    parts = cut_depth(m, n, k, threads=threads)
    if not parts:
        return
    assert 2 <= len(parts) <= threads
    assert len(parts) * m * n * 2 <= (m + n) * k
    assert all((part.rows, part.columns) == (slice(0, m), slice(0, n)) for part in parts)
    assert [part.depth_start for part in parts] == [0, *(part.depth_stop for part in parts[:-1])]
    assert parts[-1].depth_stop == k
