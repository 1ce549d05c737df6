"""The BLAS that NumPy has loaded, as function addresses for C."""

import ctypes
import logging
import os
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import threadpoolctl

logger = logging.getLogger(__name__)

_NAMES: Final = ("scipy_cblas_{}64_", "cblas_{}64_", "cblas_{}_64", "scipy_cblas_{}", "cblas_{}")
"""Function names in builds of OpenBLAS; builds with 64-bit integers first."""

_ROUTINES: Final = (
    *("sgemm", "dgemm", "cgemm", "zgemm"),
    *("sgemv", "dgemv", "cgemv", "zgemv"),
)
_WIDE_BUILD: Final = b"USE64BITINT"


class Blas(ctypes.Structure):
    """`Blas` of calls.h, with the addresses of sgemm, dgemm, cgemm, zgemm, and of these gemv."""

    _fields_ = (
        ("gemm", ctypes.c_void_p * 4),
        ("gemv", ctypes.c_void_p * 4),
        ("integer_bytes", ctypes.c_int64),
        ("tiles", ctypes.c_int64),
    )


@cache
def find_blas() -> Blas | None:
    """Find a loaded OpenBLAS; None, after a warning, if none can be called.

    Other libraries do not tell the width of their integers, or limit threads for one caller only.
    """
    entries = [entry for entry in threadpoolctl.threadpool_info() if entry["user_api"] == "blas"]
    # NumPy's own comes first: other packages, such as SciPy, may have loaded theirs.
    entries.sort(key=lambda entry: "numpy" not in entry["filepath"])
    for entry in entries:
        if entry["internal_api"] == "openblas" and entry.get("threading_layer") != "openmp":
            for blas in _read_library(entry["filepath"]):
                return blas
    paths = ", ".join(entry["filepath"] for entry in entries) or "none"
    logger.warning(
        "products on the CPU run in Python threads, which is slower: among the loaded BLAS "
        "libraries is no OpenBLAS that can be called (%s)",
        paths,
    )
    return None


def _read_library(path: str) -> Iterator[Blas]:
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return
    for name in _NAMES:
        functions: list[Any] = [
            getattr(library, name.format(routine), None) for routine in _ROUTINES
        ]
        build = _WIDE_BUILD if "64" in name else _read_build(library)
        if all(functions) and build:
            found = tuple(ctypes.cast(one, ctypes.c_void_p).value for one in functions)
            yield Blas(found[:4], found[4:], 8 if _WIDE_BUILD in build else 4)


def _read_build(library: ctypes.CDLL) -> bytes:
    """OpenBLAS's description of its build; empty if it gives none."""
    for name in ("scipy_openblas_get_config", "openblas_get_config"):
        function = getattr(library, name, None)
        if function is not None:
            function.restype = ctypes.c_char_p
            return bytes(function() or b"")
    return b""
