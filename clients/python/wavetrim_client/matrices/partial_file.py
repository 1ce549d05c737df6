"""Files that appear under their name only when they are complete."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_NAME_CHARACTERS: Final = 32
"""How much of the target's name is in the new file's: of four bytes each, and with 15 more, this
fits the file systems with the shortest names (143 bytes, eCryptfs)."""


@contextlib.contextmanager
def write_partial(target: Path) -> Iterator[BinaryIO]:
    """Open a new file beside `target`, and rename it to `target` at the end of the block.

    A file of that name is replaced at once; whoever has it open or mapped keeps the old one. If
    the block ends with an exception (Ctrl-C included), the new file is removed and `target` stays
    as it was.

    Args:
        target: The file to be written; for a symbolic link, the file that it points to.

    Raises:
        OSError: The folder is not writable, or `target` is not an ordinary file.
    """
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is there and is not an ordinary file")
    part = target.with_name(f".{target.name[:_NAME_CHARACTERS]}.{secrets.token_hex(4)}.part")
    with part.open("x+b") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
