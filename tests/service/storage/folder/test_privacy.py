"""The data folder is its user's alone: what earlier versions have left, and what is made anew."""

import os
import stat
from contextlib import contextmanager

import numpy as np

from tests.server import RunningServer
from wavetrim.service.storage.folder.data_folder import claim_folder, close_to_others


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
    try:
        running.wait_ready()
        matrix_id = running.upload(np.ones((600, 600)))
        job = running.client.post("/v1/jobs", json={"a": matrix_id, "b": matrix_id}).json()
        assert running.wait_job(job["id"])["state"] == "succeeded"
        modes = list_modes(folder)
    finally:
        running.stop()
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
    with claim_folder(folder):
        closed = (folder, elsewhere, folder / "lost", folder / "kernels")
        assert [read_mode(path) for path in closed] == [0o700] * 4


def test_a_folder_for_everybody_stays_one_and_is_warned_of(tmp_path, caplog):
    tmp_path.chmod(0o1777)
    close_to_others(tmp_path)
    assert read_mode(tmp_path) == 0o1777
    assert "a folder of its own" in caplog.text


def test_the_umask_is_the_users_again_when_the_folder_is_let_go(tmp_path):
    with careless_umask():
        with claim_folder(tmp_path / "data"):
            pass
        (tmp_path / "result.npy").touch()
    assert read_mode(tmp_path / "result.npy") == 0o666
