"""The file that is made ahead for the next product."""

import os
import threading
from pathlib import Path

import pytest

from wavetrim.service.storage.new_file import make_file, write_start
from wavetrim.service.storage.spare import LEAST_BYTES, MOST_BYTES, SpareFile

SIZE = LEAST_BYTES + 128


def make_spare(folder: Path, size_bytes: int = SIZE) -> SpareFile:
    """A spare file that is complete."""
    spare = SpareFile(folder)
    spare.make(size_bytes)
    wait_for_threads()
    return spare


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "spare-file":
            thread.join()


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_spare_file_is_private_and_of_zeros_and_goes_to_who_takes_it(tmp_path: Path) -> None:
    spare = make_spare(tmp_path)
    [name] = list_files(tmp_path)
    assert (name[:6], name[-5:]) == ("spare-", ".part")
    assert spare.size_bytes == SIZE
    assert spare.take(SIZE, tmp_path / "product.part")
    assert list_files(tmp_path) == ["product.part"]
    taken = tmp_path / "product.part"
    assert taken.read_bytes() == bytes(SIZE)
    assert taken.stat().st_mode & 0o777 == 0o600
    assert taken.stat().st_blocks * 512 >= SIZE
    assert spare.size_bytes == 0
    assert not spare.take(SIZE, tmp_path / "another.part")


def test_its_pages_are_in_memory(tmp_path: Path) -> None:
    make_spare(tmp_path)
    [name] = list_files(tmp_path)
    file = os.open(tmp_path / name, os.O_RDONLY)
    try:
        # Whatever is not in memory is not read here.
        for offset in range(0, SIZE, 2**20):
            assert os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except OSError as error:
        pytest.skip(f"this file system does not say: {error}")
    finally:
        os.close(file)


def test_one_that_is_being_made_is_waited_for(tmp_path: Path) -> None:
    spare = SpareFile(tmp_path)
    spare.make(SIZE)
    assert spare.take(SIZE, tmp_path / "product.part")
    assert list_files(tmp_path) == ["product.part"]


def test_it_is_not_given_to_a_product_of_another_size(tmp_path: Path) -> None:
    spare = make_spare(tmp_path)
    assert not spare.take(SIZE - 1, tmp_path / "product.part")
    assert not spare.take(SIZE + 1, tmp_path / "product.part")
    assert spare.size_bytes == SIZE


def test_there_is_one_at_most_and_of_the_size_that_was_asked_for_last(tmp_path: Path) -> None:
    spare = make_spare(tmp_path)
    first = list_files(tmp_path)
    spare.make(SIZE)
    wait_for_threads()
    assert list_files(tmp_path) == first
    spare.make(2 * SIZE)
    wait_for_threads()
    [name] = list_files(tmp_path)
    assert (tmp_path / name).stat().st_size == spare.size_bytes == 2 * SIZE


@pytest.mark.parametrize("size_bytes", [LEAST_BYTES - 1, MOST_BYTES + 1])
def test_there_is_none_of_a_size_that_is_not_worth_it(tmp_path: Path, size_bytes: int) -> None:
    spare = make_spare(tmp_path)
    spare.make(size_bytes)
    assert (spare.size_bytes, list_files(tmp_path)) == (0, [])


def test_a_dropped_one_leaves_nothing_even_while_it_is_made(tmp_path: Path) -> None:
    spare = SpareFile(tmp_path)
    spare.drop()
    spare.make(SIZE)
    spare.drop()
    assert (spare.size_bytes, list_files(tmp_path)) == (0, [])
    assert not spare.take(SIZE, tmp_path / "product.part")


def test_where_it_cannot_be_made_there_is_none(tmp_path: Path) -> None:
    spare = make_spare(tmp_path / "missing")
    assert spare.size_bytes == 0
    assert not spare.take(SIZE, tmp_path / "product.part")


def test_one_that_somebody_has_removed_is_not_taken(tmp_path: Path) -> None:
    spare = make_spare(tmp_path)
    [name] = list_files(tmp_path)
    (tmp_path / name).unlink()
    assert not spare.take(SIZE, tmp_path / "product.part")
    assert spare.size_bytes == 0


def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    make_file(tmp_path / "file", 100)
    write_start(tmp_path / "file", b"start")
    with pytest.raises(FileExistsError):
        make_file(tmp_path / "file", 100)
    assert (tmp_path / "file").read_bytes() == b"start" + bytes(95)
