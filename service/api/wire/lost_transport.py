"""The stand-in for a transport whose connection is lost."""

import asyncio
from typing import Any


class LostTransport(asyncio.Transport):
    """Accepts every call and does nothing.

    A request and its connection refer to each other, so only the garbage collector frees them, and
    late. Under TLS each transport has some 300 KiB of buffers, which must not wait for that.
    """

    def is_closing(self) -> bool:
        """True: it is closed."""
        return True

    def get_write_buffer_size(self) -> int:
        """0: nothing will be sent."""
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The default: nothing is known of the connection."""
        del name
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Drops the bytes."""

    def close(self) -> None:
        """Does nothing."""

    def abort(self) -> None:
        """Does nothing."""

    def pause_reading(self) -> None:
        """Does nothing."""

    def resume_reading(self) -> None:
        """Does nothing."""


LOST = LostTransport()
"""The one stand-in of all lost connections."""
