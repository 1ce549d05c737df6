"""What the refusal of a lease says of the arena."""

import pytest

from tests.service.storage.arena.test_arena import MIB, on_loop, running_arena, take
from wavetrim.service.storage.arena.errors import ArenaFull

TAKEN = "{taken} of its {limit} bytes (WAVETRIM_ARENA_BYTES) are taken"


@on_loop
async def test_a_lease_larger_than_the_arena_must_be_at_most_the_arenas_bytes() -> None:
    async with running_arena(limit=64 * MIB, slab=64 * MIB) as arena:
        with pytest.raises(ArenaFull) as refused:
            await arena.lease(2**40)
        assert (refused.value.field, refused.value.value) == ("bytes", 2**40)
        assert refused.value.limit.startswith(f"at most {64 * MIB}, ")
        assert "WAVETRIM_ARENA_BYTES" in refused.value.limit
        assert "taken" not in refused.value.limit, "an idle arena holds nothing"
        assert (await arena.lease(64 * MIB)).size_bytes == 64 * MIB


@on_loop
async def test_the_most_that_a_refusal_names_is_accepted() -> None:
    async with running_arena(limit=9 * MIB) as arena:
        with pytest.raises(ArenaFull, match=f"must be at most {8 * MIB}, "):
            await arena.lease(9 * MIB)
        assert (await arena.lease(8 * MIB)).size_bytes == 8 * MIB


@on_loop
async def test_free_memory_beside_a_matrix_does_not_count_as_taken() -> None:
    async with running_arena(limit=8 * MIB) as arena:
        hold = take(arena, MIB)
        with pytest.raises(ArenaFull) as refused:
            await arena.lease(8 * MIB)
        assert TAKEN.format(taken=MIB, limit=8 * MIB) in refused.value.limit
        assert f"{3 * MIB} are free beside matrices" in refused.value.limit
        hold.release()


@on_loop
async def test_other_leases_count_as_taken_and_idle_slabs_do_not() -> None:
    async with running_arena(limit=64 * MIB) as arena:
        await arena.lease(32 * MIB)
        with pytest.raises(ArenaFull) as refused:
            await arena.lease(64 * MIB)
        assert TAKEN.format(taken=32 * MIB, limit=64 * MIB) in refused.value.limit
        assert " 0 are free beside matrices" in refused.value.limit


@on_loop
async def test_where_the_system_has_no_memory_nothing_is_said_to_be_taken() -> None:
    async with running_arena(limit=64 * MIB, room=lambda: 4 * MIB) as arena:
        with pytest.raises(ArenaFull) as refused:
            await arena.lease(32 * MIB)
        assert TAKEN.format(taken=0, limit=64 * MIB) in refused.value.limit
        assert "the system's memory" in refused.value.limit
