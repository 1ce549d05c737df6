"""How a product is to be computed; whatever is left out is left to the service."""

from typing import Any, Literal, TypedDict

Accuracy = Literal["strict", "library", "float32", "float64"]
"""How exact the GPU's sums are: strict (IEEE, in the order of k), library (as NumPy's), or with
errors as of float32 or float64, where tensor cores may compute them."""


class PlanOptions(TypedDict, total=False):
    """What may be asked of a plan.

    Attributes:
        f: Rows of C that the CPU computes, 0…M, or "auto" for the best.
        kernel: A kernel of the GPU part; None for the fastest.
        tile: A tile of that kernel, such as "64x128x16"; None for the fastest.
        accuracy: How exact the sums are; None for "library", or what the named kernel has.
        sms: Multiprocessors that the GPU part may use; None for all.
        devices: GPUs that may be used: "none", or indices such as "0,1"; None for all.
    """

    f: int | Literal["auto"]
    kernel: str | None
    tile: str | None
    accuracy: Accuracy | None
    sms: int | None
    devices: str | None


class ProductOptions(PlanOptions, total=False):
    """What may be asked of a product.

    Attributes:
        alpha: Factor of A·B; 1.0 where it is left out. Whole for integer matrices.
        beta: Factor of C; 0.0 where it is left out, and C is then not read.
        verify: Have the product checked before it is handed out.
    """

    alpha: float
    beta: float
    verify: bool


def describe_options(
    *,
    f: int | Literal["auto"] = "auto",
    kernel: str | None = None,
    tile: str | None = None,
    accuracy: Accuracy | None = None,
    sms: int | None = None,
    devices: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    verify: bool = False,
) -> dict[str, Any]:
    """What the service is told: all that is not as it would be anyway.

    Raises:
        TypeError: An option is none.
    """
    asked = {
        "f": (f, "auto"),
        "kernel": (kernel, None),
        "tile": (tile, None),
        "accuracy": (accuracy, None),
        "sms": (sms, None),
        "devices": (devices, None),
        "alpha": (alpha, 1.0),
        "beta": (beta, 0.0),
        "verify": (verify, False),
    }
    return {name: value for name, (value, default) in asked.items() if value != default}
