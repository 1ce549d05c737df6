"""Copies between host matrices by threads in C, and their library."""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.processes import wait_until
from wavetrim.kernels.transfer.host_copies import copy_matrix, open_copiers, stream_matrix
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native.errors import CompilationFailed
from wavetrim.native.library import compile_library, name_library
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


@pytest.mark.parametrize("copy", [copy_matrix, stream_matrix])
def test_only_the_target_is_written(
    pool: ThreadPool, copy: Callable[[ThreadPool, Any, Any], None]
) -> None:
    around = np.zeros((700, 1100), np.float32)
    copy(pool, around[10:690, 7:1090], np.ones((680, 1083), np.float32))
    assert around.sum() == 680 * 1083
    assert around[10:690, 7:1090].all()


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


def test_threads_beyond_the_limit_of_a_pool_stay_asleep(tmp_path: Path) -> None:
    before = {*Path("/proc/self/task").iterdir()}
    pool = open_pool(4, tmp_path)
    mine = sorted({*Path("/proc/self/task").iterdir()} - before, key=lambda task: int(task.name))

    def count_switches() -> list[int]:
        """How often each thread of the pool has gone to sleep, in the order of their starts."""
        texts = ((task / "status").read_text() for task in mine)
        found = (re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M) for text in texts)
        return [int(match[1]) for match in found if match]

    source = np.ones((2000, 2000), np.float32)
    pool.limit(1)
    copy_matrix(pool, np.empty_like(source), source)  # threads that were about to wake fall asleep
    threading.Event().wait(0.05)
    slept = count_switches()

    def wakes_the_first() -> bool:
        for _ in range(20):
            copy_matrix(pool, np.empty_like(source), source)
            threading.Event().wait(1e-3)
        return count_switches()[0] > slept[0]

    wait_until(wakes_the_first)  # on a busy machine it may come too late for many copies
    woken = [now > then for then, now in zip(slept, count_switches(), strict=True)]
    pool.close()
    assert woken == [True, False, False, False]


def test_copying_an_empty_matrix_does_nothing(pool: ThreadPool) -> None:
    copy_matrix(pool, np.empty((0, 7)), np.empty((0, 7)))
    copy_matrix(pool, np.empty((7, 0)), np.empty((7, 0)))


def test_more_callers_than_the_pool_has_slots_copy_at_once(pool: ThreadPool) -> None:
    sources = [np.full((500, 1500), value, np.float32) for value in range(18)]
    targets = [np.zeros_like(source) for source in sources]
    start = threading.Barrier(len(sources))

    def copy_often(index: int) -> None:
        start.wait()
        for _ in range(10):
            targets[index].fill(-1)
            copy_matrix(pool, targets[index], sources[index])
            assert np.array_equal(targets[index], sources[index])

    with ThreadPoolExecutor(len(sources)) as callers:
        list(callers.map(copy_often, range(len(sources))))


def test_a_pool_whose_threads_sleep_copies(pool: ThreadPool) -> None:
    source, target = np.ones(3 << 20, np.uint8)[None], np.zeros(3 << 20, np.uint8)[None]
    for _ in range(5):
        threading.Event().wait(0.02)  # longer than its threads stay awake
        target.fill(0)
        copy_matrix(pool, target, source)
        assert target.all()


def test_a_pool_without_threads_copies_in_the_caller(tmp_path: Path) -> None:
    alone = open_pool(0, tmp_path)
    target = np.zeros((300, 3000))
    copy_matrix(alone, target, np.ones_like(target))
    alone.close()
    assert target.all()


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


def test_a_library_that_cannot_be_loaded_means_one_warning_and_no_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As in a folder that is mounted noexec: it compiles, and the loader refuses it.
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo no library >"$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with caplog.at_level(logging.WARNING):
        pool = open_copiers(2, cache_dir=tmp_path / "empty")
    if pool is not None:
        pytest.skip("the library is compiled next to its source")
    (warning,) = caplog.messages
    assert "CUDA itself copies pageable memory, which is slower" in warning
    assert name_library(HOST_LIBRARY) in warning


def test_a_damaged_library_is_compiled_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name_library(HOST_LIBRARY)).write_bytes(b"no library")
    with caplog.at_level(logging.WARNING):
        pool = open_pool(1, tmp_path)
    target = np.zeros((1000, 1000))
    copy_matrix(pool, target, np.ones_like(target))
    pool.close()
    assert target.all()
    assert "cannot be loaded" in caplog.text


def test_a_pool_that_was_woken_without_work_copies(pool: ThreadPool) -> None:
    source = np.random.default_rng(5).random((700, 900), np.float32)
    target = np.zeros_like(source)
    for _ in range(3):
        pool.wake(2)
    copy_matrix(pool, target, source)
    assert np.array_equal(target, source)
    pool.wake(2)
