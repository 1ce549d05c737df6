"""Errors of native/, and the base of the errors of the layers above it."""

from typing import Any


class WavetrimError(Exception):
    """Base of what native/, cpu/, kernels/ and scheduler/ raise on purpose.

    They can be pickled, so that a pool of processes passes them on.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call `__init__` with the message alone, and many take other arguments.
        return _make, (type(self), self.args), self.__dict__


def _make(kind: type[WavetrimError], args: tuple[Any, ...]) -> WavetrimError:
    """An error made without `__init__`: unpickling sets its attributes."""
    return kind.__new__(kind, *args)


class NativeError(WavetrimError):
    """Base of the errors that native/ raises on purpose."""


class CompilationFailed(NativeError):
    """There is no C compiler, or it refuses the source."""
