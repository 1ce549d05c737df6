"""The element types that the service multiplies, as NumPy types."""

from typing import Any, Final

import numpy as np

try:
    import ml_dtypes
except ImportError:
    BFLOAT16: np.dtype[Any] | None = None
else:
    BFLOAT16 = np.dtype(ml_dtypes.bfloat16)  # from now on NumPy knows its name, too

DTYPES: Final = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""Their names."""

_RAW: Final = np.dtype("V2")


def read_dtype(descr: np.dtype[Any]) -> np.dtype[Any]:
    """The element type of a .npy file whose head says `descr`.

    The format has no name for bfloat16: `numpy.save` and the service write it as two raw bytes.
    Without ml_dtypes they stay raw bytes, as with `numpy.load`.
    """
    return BFLOAT16 if descr == _RAW and BFLOAT16 is not None else descr


def find_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of one of `DTYPES`; raw bytes for bfloat16 without ml_dtypes."""
    return read_dtype(_RAW) if name == "bfloat16" else np.dtype(name)


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Refuse an element type that the service does not multiply.

    Raises:
        ValueError: The service does not multiply it.
    """
    if dtype.name not in DTYPES:
        raise ValueError(f"dtype is {dtype.name}; it must be one of {', '.join(DTYPES)}")
