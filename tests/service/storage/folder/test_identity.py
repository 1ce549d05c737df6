"""Database and data folder belong together, and the folder is its user's alone."""

import os
import shutil
import stat
from contextlib import contextmanager

import numpy as np
import pytest
from sqlalchemy import update

from tests.command import expect_refused, run_command
from tests.server import RunningServer, encode_npy
from tests.service.drafts import add_row, keep_matrix, open_store
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.database.tables import identity, matrices
from wavetrim.service.storage.errors import DataMismatch, MatrixDamaged
from wavetrim.service.storage.folder.data_folder import pair, read_folder_id
from wavetrim.service.storage.folder.lost_files import adopt as adopt_files

ARRAY = np.arange(35, dtype=np.float32).reshape(5, 7)
COUNT = 12


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("filled") / "data") as running:
        for number in range(COUNT):
            running.upload(ARRAY + number)
    return running.data_dir


@pytest.fixture
def filled(filled_once, tmp_path):
    """The data folder of a stopped service, and its matrices' files."""
    folder = shutil.copytree(filled_once, tmp_path / "data")
    return folder, read_files(folder / "matrices")


def read_files(folder):
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in folder.glob("*.npy")}


def serve(folder, **settings):
    """A start that is expected to be refused."""
    return run_command("serve", "--port", 0, "--data-dir", folder, folder=folder, **settings)


def adopt(folder, **settings):
    done = run_command("adopt", "--data-dir", folder, folder=folder, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def remove_database(folder):
    for path in folder.glob("wavetrim.db*"):
        path.unlink()


def empty_database(folder):
    remove_database(folder)
    (folder / "wavetrim.db").touch()


def take_another_database(folder):
    remove_database(folder)
    other = open_database(f"sqlite:///{folder / 'wavetrim.db'}")
    (folder / "other").mkdir()
    pair(other, folder / "other")
    other.dispose()


@pytest.mark.parametrize("lose", [remove_database, empty_database, take_another_database])
def test_without_its_database_a_folder_keeps_every_file_until_it_is_adopted(filled, lose):
    folder, files = filled
    lose(folder)
    refused = serve(folder)
    assert refused.returncode != 0
    line = refused.stderr.strip().splitlines()[-1]
    for told in (str(folder), "wavetrim.db", str(read_folder_id(folder)), "wavetrim adopt"):
        assert told in line
    assert read_files(folder / "matrices") == files
    assert f"adopted {COUNT}, restored 0, left as they are 0, without a file 0" in adopt(folder)
    with RunningServer(folder) as running:
        for name, content in files.items():
            path = f"/v1/matrices/{name.removesuffix('.npy')}/data"
            assert running.client.get(path).content == content
        assert running.read_metric("wavetrim_lost_files") == 0


def test_a_database_url_of_another_database_is_refused(filled, postgres, tmp_path):
    folder, files = filled
    postgres_url = postgres.create_database()
    refused = serve(folder, WAVETRIM_DATABASE_URL=postgres_url)
    assert refused.returncode != 0
    assert "is not that of the data folder" in refused.stderr
    assert read_files(folder / "matrices") == files
    assert f"adopted {COUNT}" in adopt(folder, WAVETRIM_DATABASE_URL=postgres_url)
    with RunningServer(folder, database_url=postgres_url):
        pass
    # Now it is the folder's own database that is the other one.
    assert "is not that of the data folder" in serve(folder).stderr
    # And a folder that is not mounted is not mistaken for an empty one.
    (tmp_path / "empty").mkdir()
    other = serve(tmp_path / "empty", WAVETRIM_DATABASE_URL=postgres_url)
    assert "is not that of the data folder" in other.stderr


def test_a_lost_write_ahead_log_deletes_nothing(start_server):
    running = start_server()
    ids = [running.upload(ARRAY)]
    running.stop()
    running.restart()
    ids += [running.upload(ARRAY + number) for number in range(1, COUNT)]
    running.kill()
    files = read_files(running.data_dir / "matrices")
    for name in ("wavetrim.db-wal", "wavetrim.db-shm"):
        (running.data_dir / name).unlink()
    running.restart()
    lost = read_files(running.data_dir / "lost")
    assert {**lost, **read_files(running.data_dir / "matrices")} == files
    assert lost, "the log held the rows"
    assert running.read_metric("wavetrim_lost_files") == len(lost)
    assert "the database does not know" in running.read_log()
    running.stop()
    assert f"adopted {len(lost)}" in adopt(running.data_dir)
    running.restart()
    for number, matrix_id in enumerate(ids):
        assert np.array_equal(running.download(f"/v1/matrices/{matrix_id}/data"), ARRAY + number)


def test_a_lost_file_never_takes_the_place_of_an_earlier_one(tmp_path):
    database = open_database(f"sqlite:///{tmp_path / 'wavetrim.db'}")
    pair(database, tmp_path)
    store = open_store(database, tmp_path)
    contents = [encode_npy(ARRAY + number) for number in range(3)]
    for content in contents:
        (tmp_path / "matrices" / "unknown.npy").write_bytes(content)
        store.sweep()
    database.dispose()
    lost = read_files(tmp_path / "lost")
    assert lost == dict(
        zip(["unknown.npy", "unknown.1.npy", "unknown.2.npy"], contents, strict=True)
    )
    assert "adopted 1, restored 0, left as they are 2" in adopt(tmp_path)


def test_only_whole_regular_npy_files_are_adopted(filled, tmp_path):
    folder, files = filled
    content = encode_npy(ARRAY)
    (tmp_path / "elsewhere.npy").write_bytes(content)
    lost = folder / "lost"
    lost.mkdir()
    (lost / "short.npy").write_bytes(content[:-1])
    (lost / "long.npy").write_bytes(content + b"\0")
    (lost / "text.npy").write_bytes(b"no matrix")
    (lost / "link.npy").symlink_to(tmp_path / "elsewhere.npy")
    (lost / "right.npy").write_bytes(content)
    kept, changed = list(files)[:2]
    (folder / "matrices" / kept).rename(lost / kept)
    (folder / "matrices" / changed).unlink()
    (lost / changed).write_bytes(files[changed][:-1] + b"\xff")
    done = run_command("adopt", "--data-dir", folder, folder=folder)
    assert "adopted 1, restored 1, left as they are 5, without a file 1" in done.stdout
    for told in ("short.npy", "long.npy", "text.npy", "link.npy", changed):
        assert told in done.stderr
    assert (folder / "matrices" / kept).read_bytes() == files[kept]
    assert (folder / "matrices" / "right.npy").read_bytes() == content


@pytest.mark.parametrize("has_checksum", [True, False])
def test_a_restored_matrix_is_damaged_no_longer_if_its_checksum_says_so(
    database, tmp_path, has_checksum
):
    folder = tmp_path / "matrices"
    store = open_store(database, tmp_path)
    matrix = keep_matrix(store, 5, 7)
    (tmp_path / "lost").mkdir()
    matrix.path.rename(tmp_path / "lost" / matrix.path.name)
    with pytest.raises(MatrixDamaged):
        store.checks.open_file(matrix)
    if not has_checksum:
        with database.begin() as connection:
            connection.execute(update(matrices).values(crc32=None))
    assert store.get(matrix.id).damaged_at is not None
    assert adopt_files(database, tmp_path, folder).restored == 1
    restored = store.get(matrix.id)
    assert (restored.damaged_at is None) == has_checksum
    if has_checksum:
        store.checks.verify(restored)


def test_a_running_service_keeps_its_folder_from_being_adopted(start_server):
    running = start_server()
    folder = running.data_dir
    expect_refused("adopt", "--data-dir", folder, folder=folder, says="no other running service")


def test_a_folder_without_an_id_is_new_unless_its_database_has_matrices(database, tmp_path):
    with database.begin() as connection:  # a first start has broken off, or its folder is elsewhere
        connection.execute(identity.insert().values(id="0" * 32, created_at=0.0))
    pair(database, tmp_path)
    assert read_folder_id(tmp_path) == "0" * 32
    (tmp_path / "identity").unlink()
    with database.begin() as connection:
        add_row(connection, "known")
    with pytest.raises(DataMismatch):
        pair(database, tmp_path)
    assert adopt_files(database, tmp_path, tmp_path / "matrices").missing == ("known",)
    pair(database, tmp_path)


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
