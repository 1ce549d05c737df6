"""The C library of kernels/transfer/native/: copies between the caller's memory and the device."""

import ctypes
from ctypes import c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Final

from wavetrim.native.library import Library, Signatures, declare_functions, load_library

HOST_LIBRARY: Final = Library(
    name="host",
    folder=Path(__file__).parent / "native",
    source_names=("copies.c", "driver.c", "slabs.c", "stage.c"),
    header_names=("copies.h", "driver.h", "slabs.h"),
    links=("-ldl",),
    otherwise="CUDA itself copies pageable memory, which is slower",
)

STAGING_THREADS: Final = 12
"""Largest number of copy threads, the caller included. Measured on an H200's host with 16 cores:
eight copy as fast as its link of 55 GB/s transfers one way."""


def load_host_library(cache_dir: Path | None) -> ctypes.CDLL | None:
    """Load the library and declare its functions; None, after a warning, if that fails.

    Args:
        cache_dir: Folder of compiled code; None to use only a library compiled ahead of time.
    """
    library = load_library(HOST_LIBRARY, cache_dir)
    if library is None:
        return None
    host, sizes = (c_void_p, c_int64, c_int64), (c_int64,) * 3
    signatures: Signatures = {
        "copy_matrix": (None, (c_void_p, c_int, *host, *host, *sizes)),
        "open_stage": (c_void_p, (c_void_p, c_void_p, c_void_p, c_int, c_int64)),
        "request_copy": (
            c_int64,
            (c_void_p, c_int, c_int, *(c_void_p,) * 3, *host, c_uint64, c_int64, *sizes),
        ),
        "is_done": (c_int, (c_void_p, c_int64)),
        "await_copy": (c_int, (c_void_p, c_int64)),
        "limit_helpers": (None, (c_void_p, c_int)),
        "finish_stage": (c_int, (c_void_p,)),
        "abandon_copies": (None, (c_void_p,)),
        "close_stage": (None, (c_void_p,)),
    }
    declare_functions(library, signatures)
    return library
