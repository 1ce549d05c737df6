"""How long a file is made ahead of the bytes that are written into it.

Blocks that are taken in long steps lie together and cost little; but who takes them for bytes that
never come keeps them from others.
"""

from typing import Final

FIRST_STEP_BYTES: Final = 4 * 2**20
"""The first step, and so all that a file has before bytes have come for it."""

MOST_STEP_BYTES: Final = 256 * 2**20


def find_next_length(made_bytes: int, end_bytes: int, size_bytes: int) -> int:
    """The length to which a file is made next: steps double, up to a limit. Pure.

    Args:
        made_bytes: Its length so far.
        end_bytes: Where the bytes end that are to be written now.
        size_bytes: Its final length.
    """
    step_bytes = min(max(made_bytes, FIRST_STEP_BYTES), MOST_STEP_BYTES)
    return min(size_bytes, max(end_bytes, made_bytes + step_bytes))
