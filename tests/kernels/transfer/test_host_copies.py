"""Copies between host matrices by threads in C, and their library."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wavetrim.kernels.transfer.host_copies import copy_matrix, open_copiers, stream_matrix
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native.errors import CompilationFailed
from wavetrim.native.library import compile_library
from wavetrim.native.pool import ThreadPool

Matrix = NDArray[Any]

LAYOUTS: dict[str, Callable[[Matrix], Matrix]] = {
    "row-major": np.ascontiguousarray,
    "column-major": np.asfortranarray,
    "padded": lambda matrix: np.pad(matrix, ((0, 0), (0, 5)))[:, : matrix.shape[1]],
    "skipping": lambda matrix: np.repeat(np.repeat(matrix, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda matrix: np.ascontiguousarray(matrix[::-1, ::-1])[::-1, ::-1],
}


def open_pool(threads: int, cache_dir: Path) -> ThreadPool:
    pool = open_copiers(threads, cache_dir=cache_dir)
    assert pool is not None, "there is no C compiler"
    return pool


@pytest.fixture(scope="module")
def pool(kernel_cache: Path) -> Iterator[ThreadPool]:
    opened = open_pool(3, kernel_cache)
    yield opened
    opened.close()


@given(
    rows=st.sampled_from([1, 2, 31, 33, 257, 1031]),
    columns=st.sampled_from([1, 2, 31, 33, 257, 1031]),
    dtype=st.sampled_from(["uint8", "float16", "float32", "float64", "complex128"]),
    source=st.sampled_from(sorted(LAYOUTS)),
    target=st.sampled_from(sorted(LAYOUTS)),
)
def test_a_shared_copy_between_any_two_layouts_keeps_every_element(
    pool: ThreadPool, rows: int, columns: int, dtype: str, source: str, target: str
) -> None:
    values = np.random.default_rng(rows + columns).integers(0, 250, (rows, columns)).astype(dtype)
    copied = LAYOUTS[target](np.full_like(values, 251))
    copy_matrix(pool, copied, LAYOUTS[source](values))
    assert np.array_equal(copied, values)
    rows_of_target = np.full_like(values, 251)
    stream_matrix(pool, rows_of_target, LAYOUTS[source](values))
    assert np.array_equal(rows_of_target, values)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_pool_copies_while_it_is_limited_and_afterwards(pool: ThreadPool, threads: int) -> None:
    source = np.random.default_rng(6).random((900, 2100), np.float32)
    for limit in (threads, pool.threads):
        pool.limit(limit)
        for _ in range(3):
            target = np.zeros_like(source)
            pool.wake(limit)
            copy_matrix(pool, target, source)
            assert np.array_equal(target, source)
            threading.Event().wait(2e-3)  # longer than they stay awake


def test_without_a_compiler_there_is_one_warning_and_no_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    with pytest.raises(CompilationFailed, match="no C compiler"):
        compile_library(HOST_LIBRARY, tmp_path)
    with caplog.at_level(logging.WARNING):
        pools = [open_copiers(2, cache_dir=tmp_path / "empty") for _ in range(3)]
    if pools[0] is not None:  # next to its source is a library compiled before
        pytest.skip("the library is compiled next to its source")
    assert pools == [None] * 3
    (warning,) = caplog.messages
    assert "CUDA itself copies pageable memory, which is slower: no C compiler" in warning
