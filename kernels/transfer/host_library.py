"""The C library of kernels/transfer/native/: copies to and from the device, and command buffers."""

from ctypes import c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Final

from wavetrim.native.library import Library

_HOST: Final = (c_void_p, c_int64, c_int64)  # address, row and column stride
_SIZES: Final = (c_int64, c_int64, c_int64)  # rows, columns, bytes of an element

HOST_LIBRARY: Final = Library(
    name="host",
    folder=Path(__file__).parent / "native",
    source_names=("commands.c", "copies.c", "driver.c", "pieces.c", "stage.c"),
    header_names=("copies.h", "driver.h", "pieces.h"),
    links=("-ldl",),
    otherwise="CUDA itself copies pageable memory, which is slower",
    signatures={
        "copy_matrix": (None, (c_void_p, c_int, *_HOST, *_HOST, *_SIZES)),
        "stream_matrix": (None, (c_void_p, c_int, c_void_p, c_int64, *_HOST, *_SIZES)),
        "open_stage": (c_void_p, (*(c_void_p,) * 4, c_int, c_int64)),
        "request_copy": (
            c_int64,
            (
                *(c_void_p, c_int, *(c_void_p,) * 3, *_HOST),
                *(c_uint64, c_int64, c_int64, *_SIZES, c_int),
            ),
        ),
        "is_done": (c_int, (c_void_p, c_int, c_int64)),
        "await_copy": (c_int, (c_void_p, c_int, c_int64)),
        "finish_stage": (c_int, (c_void_p,)),
        "abandon_copies": (None, (c_void_p,)),
        "close_stage": (None, (c_void_p,)),
        "run_commands": (c_int, (c_void_p, c_int64, c_void_p, c_int64, c_int)),
        "run_in_turns": (c_int, (c_void_p, c_int64, c_void_p, c_void_p)),
        "await_team": (c_int, (c_void_p, c_int64, c_int, c_void_p)),
        "read_spans": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    },
)
