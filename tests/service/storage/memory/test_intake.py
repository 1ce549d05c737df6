"""Memory for a body grows with what has come of it; what is given ahead stays within a credit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.arena.errors import ArenaFull
from wavetrim.service.storage.memory import intake as intake_module
from wavetrim.service.storage.memory.intake import Intake

MIB = 2**20
FIRST_BYTES = 2**18
FACTOR = 8
CREDIT_BYTES = 16 * MIB
CONTENT = memoryview(np.random.default_rng(1).bytes(1_000_003) * 101)  # random, and soon made


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of some MiB take as many steps as larger ones do."""
    monkeypatch.setattr(intake_module, "FIRST_BYTES", FIRST_BYTES)
    monkeypatch.setattr(intake_module, "FACTOR", FACTOR)


@asynccontextmanager
async def making_arena(limit_bytes: int = 256 * MIB) -> AsyncIterator[Arena]:
    arena = Arena(limit_bytes=limit_bytes, slab_bytes=CREDIT_BYTES, poison=True)
    await arena.start()
    try:
        yield arena
        assert arena.credit.taken_bytes == 0
        assert arena.describe().extents == 0
    finally:
        await arena.close()


class Sender:
    """Sends what CONTENT says, and looks what is held for it meanwhile."""

    def __init__(self, arena: Arena, begin_bytes: int = 0) -> None:
        self._arena = arena
        self._begin_bytes = begin_bytes
        self._others_bytes = arena.describe().used_bytes
        self.sent_bytes = 0
        self.calls = 0

    async def fill(self, view: memoryview) -> None:
        held = self._arena.describe().used_bytes - self._others_bytes
        bound = FIRST_BYTES + FACTOR * (self._begin_bytes + self.sent_bytes) + 4096
        assert held <= bound + self._arena.credit.taken_bytes
        view[:] = CONTENT[self.sent_bytes : self.sent_bytes + len(view)]
        self.sent_bytes += len(view)
        self.calls += 1
        await asyncio.sleep(0)


@pytest.mark.parametrize("begin_bytes", [0, 128, 4096])
@pytest.mark.parametrize("taken_bytes", [0, CREDIT_BYTES])
@pytest.mark.parametrize(
    "size_bytes", [1, FIRST_BYTES, FIRST_BYTES + 1, CREDIT_BYTES, CREDIT_BYTES + 4097, 80 * MIB]
)
def test_what_is_held_follows_what_has_come(
    size_bytes: int, taken_bytes: int, begin_bytes: int
) -> None:
    async def receive() -> None:
        async with making_arena() as arena:
            assert arena.credit.take(taken_bytes)
            whole_bytes = begin_bytes + size_bytes
            with Intake(arena, whole_bytes, "test", begin_bytes=begin_bytes) as intake:
                sender = Sender(arena, begin_bytes)
                await intake.open(sender.fill)
                await intake.fill_rest(sender.fill)
                assert arena.credit.taken_bytes == taken_bytes, "it is given back as bytes come"
                with intake.give_hold() as hold:
                    assert len(hold.extent.view) == whole_bytes
                    assert hold.extent.view[begin_bytes:] == CONTENT[:size_bytes]
                assert sender.sent_bytes == size_bytes
            arena.credit.give(taken_bytes)

    asyncio.run(receive())


def test_a_body_that_stalls_in_the_middle_leaves_nothing() -> None:
    async def stall(arena: Arena, most_calls: int) -> None:
        sender = Sender(arena, 4096)

        async def fill(view: memoryview) -> None:
            if sender.calls == most_calls:
                raise TimeoutError
            await sender.fill(view)

        with Intake(arena, 90 * MIB, "test", begin_bytes=4096) as intake:
            await intake.open(fill)
            await intake.fill_rest(fill)

    async def stall_and_look(most_calls: int) -> None:
        async with making_arena() as arena:
            with pytest.raises(TimeoutError):
                await stall(arena, most_calls)

    for most_calls in range(3):
        asyncio.run(stall_and_look(most_calls))


def test_what_had_come_is_there_when_the_arena_becomes_full() -> None:
    async def overflow() -> None:
        async with making_arena(limit_bytes=96 * MIB) as arena:
            other = await arena.obtain(10 * MIB, "another")
            with Intake(arena, 90 * MIB, "test") as intake:
                with pytest.raises(ArenaFull):
                    await intake.open(Sender(arena).fill)
                assert intake.hold is not None
                assert intake.filled_bytes > 0
                filled = intake.hold.extent.view[: intake.filled_bytes]
                assert filled == CONTENT[: intake.filled_bytes]
                del filled
            other.release()

    asyncio.run(overflow())


def test_without_an_arena_nothing_is_received_before_the_refusal() -> None:
    async def refuse(arena: Arena | None) -> None:
        with Intake(arena, 300 * MIB, "test") as intake, pytest.raises(ArenaFull):
            await intake.open(lambda _: asyncio.sleep(0))
        assert intake.filled_bytes == 0

    async def refuse_both() -> None:
        await refuse(None)
        async with making_arena() as arena:
            await refuse(arena)

    asyncio.run(refuse_both())
