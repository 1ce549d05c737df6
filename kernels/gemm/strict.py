"""The strict float32 kernel that takes over where another one cannot compute a product."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.gemm.launch import prepare_tiles
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.prepared import DriverCall
from wavetrim.kernels.tiling import RegisterTiling

STRICT: Final = find_kernel("register", "float32")
"""For any operands on any GPU."""

STRICT_HELD: Final = replace(
    find_kernel("register", "float32", "256x128x16"),
    tiling=RegisterTiling(16, 8, stages=3, blocks_per_sm=1, persistent=True),
)
"""The same for some of the multiprocessors, each filled by one block."""


def prepare_strict(
    product: Product, cache_dir: Path, *, sms: int | None, wanted: int | None = None
) -> tuple[DriverCall, ...]:
    """Prepare a product, on `sms` multiprocessors or on all.

    `wanted` is the device address of a number that is 0 if it is not to be computed after all.
    """
    spec = STRICT if sms is None else STRICT_HELD
    return prepare_tiles(spec, product, cache_dir, sms=sms, wanted=wanted)
