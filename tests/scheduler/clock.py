"""A clock for tests."""


class Clock:
    """Seconds that pass only when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
