"""What the CPU path refuses, and how a product ends early."""


class CpuError(Exception):
    """The root of every error that cpu/ raises on purpose."""


class OperandError(CpuError):
    """An operand or a factor that the product cannot take.

    Attributes:
        field: Name of the argument: "a", "b", "c", "alpha", "beta" or "threads".
        value: What was given.
        limit: What would have been accepted, in words.
    """

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(f"{field} is {value}; it must be {limit}")
        self.field = field
        self.value = value
        self.limit = limit


class ProductCancelled(CpuError):
    """The caller asked the product to stop; C holds an unfinished product."""
