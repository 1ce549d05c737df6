"""What a caller may ask of a product's plan; all of it may be left to the planner."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, SupportsIndex, get_args

from wavetrim.scheduler.errors import PlanError

RowsOrAuto = int | Literal["auto"]
"""F as a caller asks for it."""

Accuracy = Literal["strict", "library", "float32", "float64"]
"""How exact the GPU's sums are, as a caller asks for it.

- strict: fused multiply-adds of the element type, each rounded as IEEE has it, in the order of k.
- library: the sums of NumPy and cuBLAS, too: in the element type, in any order.
- float32, float64: errors no larger than those of sums in that type, however they come about;
  tensor cores may compute them. For products in that type only.
"""

ACCURACIES: Final[tuple[Accuracy, ...]] = get_args(Accuracy)

DEFAULT_ACCURACY: Final[Accuracy] = "library"
"""What holds where neither an accuracy nor a kernel is named."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How a product is to be computed.

    Attributes:
        kernel: A name of the catalog, or "auto" for the fastest that the other options allow.
        tile: A tile of that kernel ("32", "64x128x16"); None for the fastest.
        f: Rows of C for the CPU, 0…M, or "auto" for the best.
        accuracy: How exact the GPU's sums must be; None for `DEFAULT_ACCURACY`, or for whatever
            the kernel has that is named.
        sms: Multiprocessors that the GPU's kernels may use, from 1; None for all.
    """

    kernel: str = "auto"
    tile: str | None = None
    f: RowsOrAuto = "auto"
    accuracy: Accuracy | None = None
    sms: int | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "PlanOptions":
        """The options among a request's fields; those it lacks are left to the planner."""
        return cls(**{name: document[name] for name in OPTION_NAMES if name in document})

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready copy; `read` is its inverse."""
        return asdict(self)


OPTION_NAMES: Final = tuple(field.name for field in fields(PlanOptions))

NO_OPTIONS: Final = PlanOptions()
"""Everything is left to the planner."""


def check_rows(f: object) -> RowsOrAuto:
    """F as a caller of this process gives it; whether C has so many rows is the planner's to say.

    Raises:
        PlanError: It is neither "auto" nor a whole number from 0.
    """
    if isinstance(f, str) and f == "auto":
        return "auto"
    if isinstance(f, SupportsIndex) and not isinstance(f, bool) and (rows := f.__index__()) >= 0:
        return rows
    raise PlanError("f", f, '"auto" or a whole number of rows, 0…M')


def find_accuracy(name: str) -> Accuracy:
    """The accuracy of that name.

    Raises:
        PlanError: There is none.
    """
    for accuracy in ACCURACIES:
        if accuracy == name:
            return accuracy
    raise PlanError("accuracy", name, f"one of {', '.join(ACCURACIES)}")
