"""Errors of native/."""


class NativeError(Exception):
    """Base of the errors that native/ raises on purpose."""


class CompilationFailed(NativeError):
    """There is no C compiler, or it refuses the source."""
