"""The C library of cpu/native/: products, as ctypes."""

import ctypes
from ctypes import c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from struct import Struct
from typing import Final

from wavetrim.native.library import Library

PRODUCT: Final = Struct("3P11q2d")
"""`Product` of calls.h: addresses, strides by rows and columns, n, k, item, kind, is_streamed, α,
β."""


class Report(ctypes.Structure):
    """`Report` of calls.h."""

    _fields_ = tuple((name, c_int64) for name in ("terms", "open_start", "open_stop"))


_CALL: Final = c_void_p, c_void_p, c_char_p, c_int, c_void_p, c_char_p, c_int64

CPU_LIBRARY: Final = Library(
    name="cpu",
    folder=Path(__file__).parent / "native",
    source_names=("calls.c", "blas.c", "streamed.c", "bfloats.c", "tiles.c", "halves.c"),
    header_names=("calls.h", "bfloats.h"),
    otherwise="products on the CPU run in Python threads, which is slower",
    signatures={
        "prefers_tiles": (c_int, (c_void_p,)),
        "begin_call": (c_void_p, _CALL),
        "compute_next": (c_int, (c_void_p, c_void_p)),
        "end_call": (None, (c_void_p,)),
        "multiply_at_once": (c_int, _CALL),
        "widen_halves": (c_int64, (c_void_p, c_int64, c_void_p)),
    },
)
