"""The engine's side of the arena: matrices at their places in slabs, mapped and page-locked."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import Queue

import pytest

from wavetrim.kernels.transfer.pinned import is_pinned
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.engine.operands import open_operand
from wavetrim.scheduler.errors import SlabError

MIB = 2**20


def make_memory(size, *, filled=False):
    fd = os.memfd_create("wavetrim-test")
    os.ftruncate(fd, size)
    if filled:
        os.pwrite(fd, bytes(size), 0)
    return fd


def add_slab(slabs, slab_id, size, *, filled=False):
    fd = make_memory(size, filled=filled)
    slabs.add(slab_id, fd, size)
    os.close(fd)


def count_mappings():
    return Path("/proc/self/maps").read_text().count("memfd:wavetrim-test")


@pytest.fixture
def slabs():
    with closing(MappedSlabs(device_index=None, send=lambda _: None)) as slabs:
        for slab_id in (1, 2):
            add_slab(slabs, slab_id, 4 * MIB)
        yield slabs
    assert count_mappings() == 0


@pytest.fixture
def told():
    """The messages of slabs on a GPU."""
    return Queue()


@pytest.fixture
def gpu_slabs(told):
    """Slabs that a GPU locks."""
    with closing(MappedSlabs(device_index=0, send=told.put)) as slabs:
        yield slabs


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((3, 0, 1, 1, "float32"), r"slab is 3; it must be one that is mapped: \[1, 2\]"),
        ((1, 4, 1, 1, "float64"), "offset_bytes is 4; it must be a multiple of 8 in 0…4194296"),
        ((1, 0, 1024, 1025, "float32"), "a matrix of at most 4194304 bytes"),
        ((1, 0, 0, 2**60, "float32"), "columns is 1152921504606846976; it must be one that"),
        ((1, 0, 1, -1, "float32"), "columns is -1; it must be at least 0"),
        ((1, 0, 1, 1, "O"), r"dtype is '\|O'; it must be a type of numbers"),
    ],
)
def test_a_place_outside_the_slab_is_refused_with_field_value_and_limit(slabs, place, message):
    with pytest.raises(SlabError, match=message):
        open_operand(Operand(*place), slabs)


def test_a_slab_is_not_removed_while_a_part_of_a_matrix_is_in_use(slabs):
    part = open_operand(Operand(1, 0, 100, 100, "float32"), slabs)[50:, :3].T
    for _ in range(2):
        with pytest.raises(SlabError, match="slab is 1; it must be one in which no product"):
            slabs.remove(1)
    assert open_operand(Operand(1, 0, 1, 1, "float32"), slabs).shape == (1, 1)
    assert float(part.sum()) == 0
    del part
    slabs.remove(1)
    assert count_mappings() == 1
    with pytest.raises(SlabError, match="slab is 1"):
        open_operand(Operand(1, 0, 1, 1, "float32"), slabs)


@pytest.mark.gpu
def test_slabs_are_locked_in_their_order_and_matrices_in_them_are_pinned(gpu_slabs, told):
    for slab_id in (3, 1, 2):
        add_slab(gpu_slabs, slab_id, 64 * MIB, filled=True)
    assert [told.get(timeout=60)["slab"] for _ in range(3)] == [3, 1, 2]
    assert all(gpu_slabs.is_locked(slab_id) for slab_id in (1, 2, 3))
    assert is_pinned(open_operand(Operand(1, 0, 4096, 4096, "float32"), gpu_slabs))
    assert is_pinned(open_operand(Operand(1, 63 * MIB, 512, 512, "float32"), gpu_slabs))


@pytest.mark.gpu
def test_a_removed_slab_is_unlocked_and_may_be_locked_again(gpu_slabs, told):
    fd = make_memory(64 * MIB, filled=True)
    for _ in range(3):  # the same pages can be locked again
        gpu_slabs.add(1, fd, 64 * MIB)
        assert told.get(timeout=60) == {"type": "locked", "slab": 1}
        gpu_slabs.remove(1)
        assert count_mappings() == 0
    os.close(fd)


@pytest.mark.gpu
@pytest.mark.parametrize("delay", [0.0, 0.001, 0.02, 0.2])
def test_a_slab_can_be_removed_at_any_time_while_it_is_locked(gpu_slabs, delay):
    for slab_id in (1, 2, 3):
        add_slab(gpu_slabs, slab_id, 128 * MIB, filled=True)
    time.sleep(delay)
    for slab_id in (2, 1, 3):
        gpu_slabs.remove(slab_id)
    assert count_mappings() == 0


@pytest.mark.gpu
def test_products_are_right_while_slabs_are_locked_and_removed(gpu_slabs):
    import cupy

    add_slab(gpu_slabs, 1, 64 * MIB, filled=True)
    operand = open_operand(Operand(1, 0, 1000, 1000, "float32"), gpu_slabs, writable=True)
    operand[...] = 1

    def churn():
        for slab_id in range(2, 12):
            add_slab(gpu_slabs, slab_id, 32 * MIB, filled=True)
            gpu_slabs.remove(slab_id)

    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        while not churning.done():
            assert float(cupy.asarray(operand).sum()) == 1_000_000
        churning.result()
    del operand
