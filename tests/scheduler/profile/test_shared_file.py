"""Files that several processes write at once."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from typing import Final

import pytest

from tests.scheduler.profile.test_history import CLASS, make_history, note
from wavetrim.scheduler.profile.shared_file import hold_lock, replace_text

WRITERS: Final = 4
WRITES: Final = 25
EXPECTED: Final = {f"{name} {number}": 1 for name in range(WRITERS) for number in range(WRITES)}


def count_runs(path: Path) -> dict[str, int]:
    return {one.run_class.product: one.runs for one in make_history(path).list_all()}


def write_runs(path: Path, name: str, wait: Callable[[], object]) -> None:
    """Write runs of products that no other writer has."""
    history = make_history(path)
    wait()
    for number in range(WRITES):
        note(history, 1.1, 1, replace(CLASS, product=f"{name} {number}"))
        history.save()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    spawn = get_context("spawn")
    begin = spawn.Barrier(WRITERS, timeout=60)
    writers = [
        spawn.Process(target=write_runs, args=(path, str(name), begin.wait))
        for name in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    assert count_runs(path) == EXPECTED
    assert sorted(one.name for one in tmp_path.iterdir()) == ["runs.json", "runs.lock"]


def test_histories_of_one_process_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """A GPU has one by its own name, and one as a part of the machine."""
    path = tmp_path / "runs.json"
    begin = Barrier(WRITERS, timeout=60)
    with ThreadPoolExecutor(WRITERS) as pool:
        for name in range(WRITERS):
            pool.submit(write_runs, path, str(name), begin.wait)
    assert count_runs(path) == EXPECTED


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    with ThreadPoolExecutor(1) as pool:
        with hold_lock(path):
            other = pool.submit(take_lock, path)
            with pytest.raises(TimeoutError):
                other.result(timeout=0.05)
        assert other.result() == "taken"


def take_lock(path: Path) -> str:
    with hold_lock(path):
        return "taken"


def test_the_time_of_a_write_is_exact(tmp_path: Path) -> None:
    """The kernel's own may be some milliseconds old, and that of several writes."""
    path = tmp_path / "file.json"
    for number in range(200):
        began = time.time_ns()
        replace_text(path, str(number))
        assert began <= path.stat().st_mtime_ns <= time.time_ns()


def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_text(path, "text")
    assert list(tmp_path.iterdir()) == [path]
