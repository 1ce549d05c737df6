"""What all fuzzers raise."""


class Fault(AssertionError):
    """The service, or a part of it, has done what it may never do."""
