"""The arena: who holds memory, what becomes of it when they let go, how it grows and shrinks."""

import asyncio
import contextlib
import os
import random
from functools import partial, wraps
from pathlib import Path

import numpy as np
import pytest

from tests.limit import allow
from tests.service.storage.memory.test_arena_memory import build_tree, describe_v2
from wavetrim.service.api.problems import describe_error
from wavetrim.service.storage.memory.arena import Arena, ArenaFull
from wavetrim.service.storage.memory.extent import PAGE_BYTES, ExtentTable
from wavetrim.service.storage.memory.memory_limit import read_memory_left
from wavetrim.service.storage.memory.slab import NoMemory, Slab, find_usual_bytes, make_slab

MIB = 2**20
GIB = 2**30


@contextlib.asynccontextmanager
async def running_arena(limit=8 * MIB, slab=4 * MIB, *, room=lambda: GIB, poison=True, **options):
    arena = Arena(limit_bytes=limit, slab_bytes=slab, poison=poison, memory_left=room, **options)
    await arena.start()
    try:
        yield arena
    finally:
        await arena.close()


def on_loop(test):
    """A test that is a coroutine."""

    @wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), allow(60)))

    return run


def take(arena, size, holder="matrix"):
    hold = arena.try_obtain(size, holder)
    assert hold is not None
    return hold


async def until(condition):
    while not condition():  # noqa: ASYNC110 # nothing tells of it
        await asyncio.sleep(0.005)


def count_bytes(fd):
    """Memory that a memfd takes."""
    return os.fstat(fd).st_blocks * 512


def count_open():
    """Descriptors and mappings of arenas in this process."""
    links = Path("/proc/self/fd").iterdir()
    names = [link.readlink().name for link in links if link.is_symlink()]
    maps = Path("/proc/self/maps").read_text().count("wavetrim-arena")
    return maps + sum("wavetrim-arena" in name for name in names)


# Slabs


def test_all_pages_of_a_slab_are_made_at_a_multiple_of_2_mib():
    slab = make_slab(1, 6 * MIB, lambda: GIB)
    assert slab.address % (2 * MIB) == 0
    assert count_bytes(slab.fd) == slab.size_bytes == slab.view.nbytes == 6 * MIB
    assert (slab.view.format, slab.view.ndim, slab.view.readonly) == ("B", 1, False)
    assert not any(slab.view)
    slab.close()


def test_a_slab_is_given_up_where_the_room_ends_while_it_is_made():
    before = count_open()
    rooms = iter([GIB, 100 * MIB])
    with pytest.raises(NoMemory, match=r"slab is 134217728 bytes; it must be at most 104857600"):
        make_slab(1, 256 * MIB, lambda: next(rooms))
    assert count_open() == before


# Where extents lie


def place(*slab_bytes):
    """A table of slabs whose memory nobody touches."""
    table = ExtentTable(poison=False)
    for number, size in enumerate(slab_bytes):
        table.add(Slab(number, -1, np.empty(size, np.uint8)))
    return table


def test_no_extent_spans_two_slabs():
    table = place(2 * MIB, 2 * MIB)
    assert table.take(3 * MIB, "test") is None
    holds = [table.take(2 * MIB, "test") for _ in range(2)]
    assert [(hold.extent.slab, hold.extent.offset_bytes) for hold in holds] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("limit", "usual"), [(64 * GIB, GIB), (8 * GIB, GIB), (7 * GIB, 256 * MIB), (0, 256 * MIB)]
)
def test_slabs_of_a_small_arena_are_small_and_have_room_for_headers(limit, usual):
    slab_bytes = find_usual_bytes(limit)
    assert slab_bytes == usual + 2 * MIB
    for count in (1, 2, 4, 64):  # matrices of a power of two, each with its page of header
        table = place(slab_bytes)
        matrix_bytes = PAGE_BYTES + usual // count
        assert None not in [table.take(matrix_bytes, "test") for _ in range(count)]


# Holders


@on_loop
async def test_the_last_holder_frees_an_extent_and_poison_shows_it():
    async with running_arena() as arena:
        first = take(arena, 100_000, "socket in")
        extent = first.extent
        extent.view[:] = b"k" * 100_000
        second = extent.hold("engine")
        assert extent.holders == ("socket in", "engine")
        first.release()
        assert bytes(extent.view) == b"k" * 100_000
        second.release()
        assert extent.holders == ()
        assert bytes(extent.view) == b"\xa5" * 100_000
        assert bytes(take(arena, 100_000).extent.view) == b"\xa5" * 100_000


@on_loop
async def test_100000_random_steps_keep_every_extents_bytes():
    drawn = random.Random(7)
    async with running_arena(limit=16 * MIB, slab=16 * MIB) as arena:
        live = []
        refused = 0
        for step in range(100_000):
            choice = drawn.random()
            if choice < 0.45:
                size = drawn.choice([drawn.randint(16, 40_000), drawn.randint(16, 600_000)])
                hold = arena.try_obtain(size, "matrix")
                if hold is None:
                    refused += 1
                    continue
                stamp = step.to_bytes(8, "little")
                hold.extent.view[:8] = hold.extent.view[-8:] = stamp
                live.append((hold, [hold], stamp))
            elif live and choice < 0.6:
                hold, holds, _ = drawn.choice(live)
                holds.append(hold.extent.hold("engine"))
            elif live:
                place = drawn.randrange(len(live))
                live[place], live[-1] = live[-1], live[place]
                hold, holds, stamp = live[-1]
                assert bytes(hold.extent.view[:8]) == bytes(hold.extent.view[-8:]) == stamp
                holds.pop(drawn.randrange(len(holds))).release()
                if not holds:
                    live.pop()
        assert refused > 100
        state = arena.describe()
        assert state["extents"] == len(live) > 0
        assert state["used_bytes"] == sum(
            -(-len(hold.extent.view) // 4096) * 4096 for hold, _, _ in live
        )
        for _, holds, _ in live:
            for hold in holds:
                hold.release()
        assert arena.describe()["used_bytes"] == arena.describe()["extents"] == 0
        assert arena.try_obtain(16 * MIB, "matrix") is not None


# Growth, limits, eviction


@on_loop
async def test_a_lease_whose_caller_leaves_while_it_is_made_is_given_back():
    async with running_arena(limit=64 * MIB) as arena:
        making = asyncio.create_task(arena.lease(32 * MIB))
        await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert (await arena.lease(4 * MIB)).size_bytes == 4 * MIB, "the next one waits its turn"
        await until(lambda: arena.describe()["made_bytes"] <= 8 * MIB)
        assert arena.describe()["leases"] == 1


@on_loop
async def test_obtain_grows_to_the_limit_and_then_refuses_with_field_value_and_limit():
    async with running_arena(limit=9 * MIB) as arena:
        holds = [await arena.obtain(MIB, "matrix") for _ in range(8)]
        assert {hold.extent.slab for hold in holds} == {1, 2}
        with pytest.raises(
            ArenaFull, match=r"size in bytes is 1048576; it must be .* 8388608"
        ) as e:
            await arena.obtain(MIB, "matrix")
        assert describe_error(e.value).status_code == 507
        assert (e.value.field, e.value.value) == ("size in bytes", MIB)
        assert arena.describe()["refusals"] == 1
        assert arena.describe()["made_bytes"] == 8 * MIB
        holds[3].release()
        assert await arena.obtain(MIB, "matrix")


@on_loop
async def test_a_group_at_its_limit_is_answered_with_full_and_never_with_growth(tmp_path, caplog):
    root = build_tree(tmp_path, describe_v2(2 * GIB, GIB))
    current = root / "sys/fs/cgroup/a/memory.current"
    async with running_arena(limit=GIB, room=partial(read_memory_left, tmp_path)) as arena:
        take(arena, 3 * MIB)
        await until(lambda: arena.describe()["slabs"] == 2)
        current.write_text(f"{2 * GIB}\n")
        before = arena.describe()["made_bytes"]
        for size in (5 * MIB, 100 * MIB):
            with pytest.raises(ArenaFull):
                await arena.obtain(size, "matrix")
        take(arena, 3 * MIB)
        await asyncio.sleep(0.05)
        assert arena.describe()["made_bytes"] == before
        assert caplog.text.count("the arena does not grow: slab is") == 1
        current.write_text(f"{GIB}\n")
        assert await arena.obtain(5 * MIB, "matrix")


# Slabs that leave


@on_loop
async def test_a_leaving_slab_keeps_its_memory_until_the_engine_has_let_go():
    async with running_arena(limit=64 * MIB, idle_seconds=0.1) as arena:
        acknowledged, leaving = asyncio.Event(), list[Slab]()

        async def leave(slab):
            leaving.append(slab)
            await acknowledged.wait()

        arena.slabs.on_leaving = leave
        hold = await arena.obtain(10 * MIB, "matrix")
        hold.release()
        await until(lambda: len(leaving) == 1)
        assert [slab.id for slab in leaving] == [hold.extent.slab]
        assert leaving[0].id not in [one.id for one in arena.shared]
        assert arena.try_obtain(10 * MIB, "matrix") is None
        assert count_bytes(leaving[0].fd) == 10 * MIB
        assert arena.describe()["made_bytes"] == 14 * MIB
        instead = await arena.obtain(10 * MIB, "matrix")
        assert instead.extent.slab != leaving[0].id
        assert arena.describe()["made_bytes"] == 24 * MIB
        acknowledged.set()
        await until(lambda: arena.describe()["made_bytes"] == 14 * MIB)
        assert leaving[0].fd == -1
