"""What one device of this machine does."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaneState:
    """What one device of this machine does.

    Attributes:
        device: Its name, as in plans.
        busy_seconds: For how long it should work at what it has; 0 if it has nothing.
    """

    device: str
    busy_seconds: float
