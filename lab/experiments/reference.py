"""Figures of the reference programs' documents, in seconds. The documents do not name the GPU."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SplitSeconds:
    """A row of Table 17: times of a product whose last F rows the CPU computes."""

    kernel_seconds: float
    transfer_seconds: float
    gpu_seconds: float
    cpu_seconds: float


SQUARE_SIZES: Final = (512, 1024, 2048, 4096)
"""N of `mulmatcua` and `compara_kernels`."""

TILE_WIDTHS: Final = (4, 8, 16, 32)
"""W of `mulmatcua` and `compara_kernels`."""

TABLE_10: Final = {
    (512, 4): 0.003609,
    (512, 8): 0.000985,
    (512, 16): 0.000821,
    (512, 32): 0.000904,
    (1024, 4): 0.030763,
    (1024, 8): 0.006628,
    (1024, 16): 0.005191,
    (1024, 32): 0.005736,
    (2048, 4): 0.246631,
    (2048, 8): 0.057171,
    (2048, 16): 0.041658,
    (2048, 32): 0.045332,
    (4096, 4): 1.956845,
    (4096, 8): 0.434562,
    (4096, 16): 0.341130,
    (4096, 32): 0.366901,
}
"""Seconds of square products, by (N, W)."""

HYBRID_SIZE: Final = 2048
"""M, N and K of Table 17."""

HYBRID_WIDTH: Final = 4
"""W of Table 17."""

TABLE_17: Final = {
    0: SplitSeconds(0.245448, 0.004317, 0.249766, 0.0),
    4: SplitSeconds(0.245609, 0.004708, 0.250317, 0.021924),
    8: SplitSeconds(0.245791, 0.004444, 0.250235, 0.043961),
    16: SplitSeconds(0.246757, 0.004755, 0.251512, 0.090823),
    24: SplitSeconds(0.247073, 0.004326, 0.251399, 0.135224),
    32: SplitSeconds(0.248081, 0.004277, 0.252357, 0.161984),
}
"""Seconds of a product split between GPU and CPU, by F; 8 threads on the CPU."""
