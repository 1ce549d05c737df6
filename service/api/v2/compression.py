"""Answers in gzip or deflate, compressed in pieces."""

import re
import zlib
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Final

from wavetrim.service.threads import run_to_end

_WINDOWS: Final = {"gzip": 31, "deflate": 15}
"""zlib's `wbits` for each coding of an answer."""

_ASKED: Final = re.compile(r"(gzip|deflate)(?:[ \t]*;[ \t]*q=(?!0(?:\.0*)?$)[01](?:\.[0-9]*)?)?")
"""An Accept-Encoding that names one coding, which `q=0` would rule out."""

_LEVEL: Final = 1
"""Compression level; chosen: matrices compress little at any level, and this is the fastest."""

_PIECE_BYTES: Final = 2**20
"""The most that is compressed at once, in a thread; chosen: it takes 5 to 30 ms."""


def choose_coding(accepted: str) -> str | None:
    """The coding of an answer, by the request's Accept-Encoding; None for none.

    Only a caller that names exactly one coding gets it. Libraries name all codings that they know
    by default, and compressing a matrix takes longer than sending it.
    """
    asked = _ASKED.fullmatch(accepted.strip().lower())
    return None if asked is None else asked[1]


async def compress(coding: str, views: Sequence[memoryview]) -> AsyncGenerator[bytes]:
    """The bytes of some views, one after the other, compressed in pieces."""
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOWS[coding])
    for view in views:
        for begin in range(0, len(view), _PIECE_BYTES):
            piece = view[begin : begin + _PIECE_BYTES]
            if chunk := await run_to_end(partial(deflater.compress, piece)):
                yield chunk
    yield deflater.flush()
