"""What the arena refuses.

StorageFull                     (service.errors)
└── ArenaFull                   no place for a matrix, and none can be made
ArenaError
├── NoRoom                      a slab would take more memory than may be taken
└── ExtentFreed                 a hold was asked of an extent that nobody held any more
"""

from wavetrim.service.errors import ServiceError
from wavetrim.service.storage.errors import StorageFull


class ArenaFull(StorageFull):
    """There is no place in the arena, nothing can be evicted, and the arena cannot grow."""


class ArenaError(ServiceError):
    """The root of what the arena's own parts tell each other."""


class NoRoom(ArenaError):
    """A slab would take more memory than may be taken.

    Attributes:
        wanted_bytes: Memory that was still to be made.
        room_bytes: Memory that could be taken.
    """

    def __init__(self, wanted_bytes: int, room_bytes: int) -> None:
        super().__init__(
            f"slab is {wanted_bytes} bytes; it must be at most {room_bytes}, the memory that may "
            "still be taken"
        )
        self.wanted_bytes = wanted_bytes
        self.room_bytes = room_bytes


class ExtentFreed(ArenaError):
    """A hold was asked of an extent that was freed already: its memory may be another's."""
