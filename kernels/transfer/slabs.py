"""Page-locked host memory in slabs that are used again and again."""

from typing import Any, Final

from numpy.typing import NDArray

Matrix = NDArray[Any]

_PORTABLE: Final = 1  # cudaHostAllocPortable


class PinnedSlab:
    """One piece of page-locked memory, allocated by itself.

    CuPy's pool of pinned memory rounds up to powers of two and never shrinks.

    Attributes:
        pointer: Its address.
    """

    def __init__(self, size_bytes: int) -> None:
        from cupy.cuda import runtime

        self.pointer: int = runtime.hostAlloc(size_bytes, _PORTABLE)

    def free(self) -> None:
        """Give the memory back, which must not be used any more."""
        from cupy.cuda import runtime

        if self.pointer:
            runtime.freeHost(self.pointer)
        self.pointer = 0
