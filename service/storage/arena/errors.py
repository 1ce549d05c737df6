"""Errors of the arena.

StorageFull                     (storage.errors)
└── ArenaFull                   no place for a matrix, and none can be made
    └── ArenaOff                the arena is switched off
ArenaError
├── NoRoom                      a slab would take more memory than may be taken
└── ExtentFreed                 a hold was asked of an extent that nobody held any more
"""

from wavetrim.service.errors import ServiceError
from wavetrim.service.storage.errors import StorageFull


class ArenaFull(StorageFull):
    """There is no place in the arena, nothing can be evicted, and the arena cannot grow."""


class ArenaOff(ArenaFull):
    """The service has no arena, and the memory cannot be elsewhere."""

    def __init__(self, size_bytes: int) -> None:
        limit = "0 bytes, since there is no memory for matrices (WAVETRIM_ARENA_BYTES)"
        super().__init__("size in bytes", size_bytes, limit)


class ArenaError(ServiceError):
    """The root of errors between the arena's own parts."""


class NoRoom(ArenaError):
    """A slab would take more memory than may be taken."""

    def __init__(self, wanted_bytes: int, room_bytes: int) -> None:
        super().__init__(
            f"slab is {wanted_bytes} bytes; it must be at most {room_bytes}, the memory that may "
            "still be taken"
        )


class ExtentFreed(ArenaError):
    """A hold was asked of an extent that is freed: its memory may be in use by another."""
