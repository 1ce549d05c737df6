"""Where part of a matrix lies in device memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceRegion:
    """Part of a row-major matrix in device memory.

    Attributes:
        pointer: Address of its first element.
        pitch: Elements from one row to the next.
    """

    pointer: int
    pitch: int

    def skip(self, rows: int, columns: int, item_bytes: int) -> "DeviceRegion":
        """The region that begins so many rows and columns further on."""
        offset = (rows * self.pitch + columns) * item_bytes
        return DeviceRegion(self.pointer + offset, self.pitch)
