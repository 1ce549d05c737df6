"""Memory in mapped files: nothing is left of a file whose caller is gone before it is made."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from wavetrim.service.storage.memory.room import Rooms

Obtain = Callable[[Rooms], Awaitable[Any]]


@pytest.mark.parametrize(
    "obtain",
    [
        lambda rooms: rooms.obtain(2**24, "request"),
        lambda rooms: rooms.make_growing(2**24, "request"),
    ],
)
def test_a_file_whose_caller_is_cancelled_while_it_is_made_is_removed(
    tmp_path: Path, obtain: Obtain
) -> None:
    async def scenario() -> None:
        asking = asyncio.ensure_future(obtain(Rooms(None, tmp_path)))
        await asyncio.sleep(0)  # now a thread makes the file
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []
