"""Errors of cpu/."""

from wavetrim.native.errors import WavetrimError


class CpuError(WavetrimError):
    """Base of the errors that cpu/ raises on purpose."""


class OperandError(CpuError):
    """An operand, a factor or a number of threads that is not accepted.

    Attributes:
        field: Name of the argument: "a", "b", "c", "alpha", "beta" or "threads".
        value: The value given.
        limit: What is accepted, in words.
    """

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(f"{field} is {value}; it must be {limit}")
        self.field = field
        self.value = value
        self.limit = limit


class ProductCancelled(CpuError):
    """The caller cancelled the product; C is incomplete."""
