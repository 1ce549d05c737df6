"""The C library of kernels/transfer/native/: copies to and from the device, and commands."""

from ctypes import c_int, c_int64, c_void_p
from pathlib import Path
from typing import Final

from wavetrim.native.library import Library, load_library
from wavetrim.native.pool import ThreadPool
from wavetrim.native.tuned import COPIERS_AWAKE_SECONDS

HOST_LIBRARY: Final = Library(
    name="host",
    folder=Path(__file__).parent / "native",
    source_names=("commands.c", "driver.c", "pieces.c", "stage.c"),
    header_names=("driver.h", "pieces.h", "stage.h"),
    links=("-ldl",),
    otherwise="CUDA itself copies pageable memory, which is slower",
    signatures={
        "open_stage": (c_void_p, (*(c_void_p,) * 4, c_int, c_int64)),
        "finish_stage": (c_int, (c_void_p,)),
        "abandon_copies": (None, (c_void_p,)),
        "close_stage": (None, (c_void_p,)),
        "run_commands": (c_int, (c_void_p, c_int64, c_void_p, c_int64, c_int)),
        "run_together": (c_int, (c_void_p, c_int64, c_void_p, c_void_p)),
        "read_spans": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    },
)


def open_copiers(threads: int, *, cache_dir: Path | None) -> ThreadPool | None:
    """Open a pool of copy threads; None, after a warning, if the C library cannot be loaded.

    Args:
        threads: Number of threads, not counting callers.
        cache_dir: Folder of compiled code; None to use only a library compiled ahead of time.
    """
    library = load_library(HOST_LIBRARY, cache_dir)
    if library is None:
        return None
    return ThreadPool(library, threads, awake_seconds=COPIERS_AWAKE_SECONDS)
