"""How far a file's disk blocks are taken ahead of the bytes that are written into it.

Blocks that are taken in long steps lie together and cost little, but blocks for bytes that never
come are lost to others.
"""

from typing import Final

FIRST_STEP_BYTES: Final = 4 * 2**20
"""The first step, which a file has before any bytes have come; chosen."""

MOST_STEP_BYTES: Final = 256 * 2**20
"""The longest step; chosen."""


def find_next_length(made_bytes: int, end_bytes: int, size_bytes: int) -> int:
    """The next length of a file: steps double, up to a limit.

    Args:
        made_bytes: Its length so far.
        end_bytes: End of the bytes that are to be written now.
        size_bytes: Its final length.
    """
    step_bytes = min(max(made_bytes, FIRST_STEP_BYTES), MOST_STEP_BYTES)
    return min(size_bytes, max(end_bytes, made_bytes + step_bytes))
