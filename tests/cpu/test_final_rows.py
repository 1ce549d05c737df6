"""Rows that the CPU pool reports as final do not change, while others are still computed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cpu.row_parts import cut_at, give
from tests.matrices import draw_operands
from wavetrim.cpu.gemm import CpuPool


@pytest.fixture(scope="module")
def pools(kernel_cache: Path) -> Iterator[dict[int, CpuPool]]:
    opened = {threads: CpuPool(threads, cache_dir=kernel_cache) for threads in (1, 2, 4)}
    for pool in opened.values():
        assert pool.prepare()
    yield opened
    for pool in opened.values():
        pool.close()


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 900), st.integers(1, 900), st.integers(2, 1200)),
    dtype=st.sampled_from(["float32", "float64"]),
    beta=st.sampled_from([0.0, 1.0]),
    threads=st.sampled_from([1, 2, 4]),
    edges=st.lists(st.integers(1, 900), max_size=4),
)
def test_final_rows_are_not_written_again(
    pools: dict[int, CpuPool],
    shape: tuple[int, int, int],
    dtype: str,
    beta: float,
    threads: int,
    edges: list[int],
) -> None:
    m, n, k = shape
    a, b, c = draw_operands(m, n, k, dtype=dtype)
    expected = a @ b + beta * c
    if beta == 0:
        c[:] = np.nan
    counts = []

    def check(final: Sequence[range]) -> None:
        counts.append(sum(map(len, final)))
        for rows in final:
            part = slice(rows.start, rows.stop)
            assert np.array_equal(c[part], expected[part])

    parts = cut_at(m, [edge for edge in edges if edge < m])
    pools[threads].multiply_rows(a, b, c, give(parts), beta=beta, final=check)
    assert np.array_equal(c, expected)
    assert all(count <= m for count in counts)


def test_rows_become_final_while_others_are_computed(pools: dict[int, CpuPool]) -> None:
    a = np.ones((2000, 800))
    counts: list[int] = []
    pools[1].multiply_rows(
        a, a[:800], np.empty((2000, 800)), give([range(2000)]),
        final=lambda final: counts.append(sum(map(len, final))),
    )  # fmt: skip
    assert counts == sorted(counts)
    assert 0 < counts[0] < counts[-1] == 2000


def test_a_sum_of_parts_of_k_is_never_reported_as_final(pools: dict[int, CpuPool]) -> None:
    a = np.ones((8, 400_000))
    told: list[Sequence[range]] = []
    c = np.full((8, 8), np.nan)
    pools[2].multiply_rows(a, a.T, c, give([range(8)]), final=told.append)
    assert told == []
    assert np.array_equal(c, np.full((8, 8), 400_000.0))


def test_only_rows_that_were_written_are_reported_as_final(pools: dict[int, CpuPool]) -> None:
    a = np.ones((900, 300))
    c = np.full((900, 300), np.nan)

    def check(final: Sequence[range]) -> None:
        for rows in final:
            assert not np.isnan(c[rows.start : rows.stop]).any()

    parts = [range(700, 900), range(100, 300)]
    pools[2].multiply_rows(a, a[:300], c, give(parts), final=check)
    assert np.isnan(c[300:700]).all()
