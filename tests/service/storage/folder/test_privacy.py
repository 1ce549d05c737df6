"""The data folder is its user's alone: what earlier versions have left, and what is made anew."""

import os
import stat
from contextlib import contextmanager

import numpy as np

from tests.server import RunningServer


@contextmanager
def careless_umask():
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def read_mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def list_modes(folder):
    return {str(path.relative_to(folder)): read_mode(path) for path in folder.rglob("*")}


def test_all_that_a_service_keeps_is_its_users_alone_whatever_the_umask(tmp_path):
    folder = tmp_path / "data"
    with careless_umask():
        running = RunningServer(folder, kernel_cache_dir=folder / "kernels")
    with running:
        matrix_id = running.upload(np.ones((600, 600)))
        running.run_job(matrix_id, matrix_id)
        modes = list_modes(folder)
    assert read_mode(folder) == 0o700
    assert {"wavetrim.db", "wavetrim.db-wal", "wavetrim.db-shm", "identity"} <= modes.keys()
    assert f"matrices/{matrix_id}.npy" in modes
    for name, mode in {**modes, **list_modes(folder)}.items():
        # Linkers make libraries executable.
        runs = name.endswith(".so") or (folder / name).is_dir()
        assert mode == (0o700 if runs else 0o600), name


def test_folders_that_were_left_open_are_closed_also_behind_a_link(tmp_path):
    folder, elsewhere = tmp_path / "data", tmp_path / "large disk"
    with careless_umask():
        for name in ("data/kernels", "data/lost", "large disk"):
            (tmp_path / name).mkdir(parents=True)
        (folder / "matrices").symlink_to(elsewhere)
    (tmp_path / "link").symlink_to(folder)
    with RunningServer(tmp_path / "link") as running:
        stored = running.upload(np.ones((3, 600_000)))
    assert f"{stored}.npy" in {path.name for path in elsewhere.iterdir()}
    closed = (folder, elsewhere, folder / "lost", folder / "kernels")
    assert [read_mode(path) for path in closed] == [0o700] * 4


def test_a_folder_for_everybody_stays_one_and_is_warned_of(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o1777)
    running = RunningServer(folder)
    running.stop()
    assert read_mode(folder) == 0o1777
    assert "a folder of its own" in running.read_log()
