"""How C does not become a library."""


class NativeError(Exception):
    """The root of every error that native/ raises on purpose."""


class CompilationFailed(NativeError):
    """There is no C compiler, or it refuses the source."""
