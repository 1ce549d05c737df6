"""The C library of kernels/native/: copies between host memory and slabs."""

from pathlib import Path
from typing import Final

from wavetrim.native.library import Library

HOST_LIBRARY: Final = Library(
    name="host",
    folder=Path(__file__).parent / "native",
    source_names=("copies.c", "rows.c", "driver.c", "ways.c", "stage.c"),
    header_names=("copies.h", "rows.h", "driver.h", "ways.h"),
    links=("-ldl",),
    otherwise="copies run in Python threads, which is slower",
)
