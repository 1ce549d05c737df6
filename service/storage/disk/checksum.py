"""CRC-32 of files, to notice when a stored matrix was changed.

It is the CRC-32 of zlib, gzip and PNG. `combine` joins the checksums of pieces, which may have been
written in any order.
"""

import os
import stat
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Final

PIECE_BYTES: Final = 2 * 2**20
"""Bytes of a file that are read at a time; chosen."""

_POLYNOMIAL: Final = 0xEDB8_8320
"""The generator, its lowest power in the highest bit."""


class NotRegular(OSError):
    """A path is not that of a regular file, but of a link, a folder or a device."""


def open_regular(path: Path) -> int:
    """Opens a file for reading, if it is a regular one; links are not followed.

    Returns:
        Its descriptor.

    Raises:
        FileNotFoundError: There is none.
        NotRegular: It is a link, a folder or a device.
    """
    try:
        # Not blocking: opening a pipe would wait for its writer.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise NotRegular(error.errno, "it is a link", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotRegular(0, "it is no regular file", str(path))
    return file


def compute_crc32(file: int, size_bytes: int, view: memoryview | None = None) -> int | None:
    """The checksum of an open file, which is read into memory if there is a view of its size.

    Returns:
        None if the file has another length.
    """
    if os.fstat(file).st_size != size_bytes:
        return None
    crc32 = offset = 0
    buffer = memoryview(bytearray(min(PIECE_BYTES, size_bytes))) if view is None else view
    while offset < size_bytes:
        begin = 0 if view is None else offset
        piece = buffer[begin : begin + min(PIECE_BYTES, size_bytes - offset)]
        count = os.preadv(file, [piece], offset)
        if count == 0:
            return None
        crc32 = zlib.crc32(piece[:count], crc32)
        offset += count
    return crc32


def combine(first: int, second: int, second_bytes: int) -> int:
    """The checksum of two pieces, one after the other, from the checksum of each."""
    return _multiply(_shift(second_bytes), first) ^ second


@lru_cache(256)
def _shift(count_bytes: int) -> int:
    """The polynomial x to the power of `8 * count_bytes`, modulo the generator."""
    product, square = 1 << 31, 1 << 23  # x^0, and x^8: one byte
    while count_bytes:
        if count_bytes & 1:
            product = _multiply(square, product)
        square = _multiply(square, square)
        count_bytes >>= 1
    return product


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo the generator."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
    return product
