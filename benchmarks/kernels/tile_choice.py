"""Which tile of a kernel is chosen for a product: by the planner, and by nvMatmulHeuristics.

nvMatmulHeuristics (PyPI: nvidia-matmul-heuristics) ranks tiles by an analytic model of the GPU. It
is a baseline if it is installed, and needs no GPU.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from benchmarks.common.environment import name_gpu
from benchmarks.common.shapes import ProductRow, Shape
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

KERNELS: Final = ("register", "bulk", "tensor")
"""Kernels whose tiles are a choice of speed, not steps of the ladder."""

CANDIDATES: Final = 64
"""Most tiles of its ranking that are looked at; chosen."""

_PRECISIONS: Final = {
    "float32": "SSS",
    "float64": "DDD",
    "float16": "HSH",
    "bfloat16": "TST",
}


@dataclass(frozen=True, slots=True)
class TileChoice(ProductRow):
    """The tiles that are chosen for one kernel at one product.

    Attributes:
        kernel: Its name in the catalog.
        planned: The planner's tile, by data sheets.
        heuristic: The first of our tiles in the ranking of nvMatmulHeuristics; None without one.
    """

    kernel: str
    planned: str
    heuristic: str | None


class TileHeuristics:
    """nvMatmulHeuristics for one GPU."""

    def __init__(self, module: Any, gpu: Any) -> None:
        self._layout = module.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
        self._interface = module.NvMatmulHeuristicsInterfaceEx(gpu=gpu)

    @classmethod
    def find(cls, gpu_name: str) -> Self | None:
        """For a GPU as CUDA names it; None if it is not installed, or does not know that GPU."""
        try:
            module = importlib.import_module("nvMatmulHeuristics")
        except (ImportError, OSError):
            return None
        wanted = name_gpu(gpu_name).upper()
        known = [
            gpu
            for gpu in module.NvMatmulHeuristicsNvidiaGpu
            if wanted in gpu.name.split("_")  # H200_SXM, RTX_4090
        ]
        return cls(module, known[0]) if known else None

    def choose(self, shape: Shape, specs: Sequence[KernelSpec]) -> KernelSpec | None:
        """The kernel with the first of its ranked tiles, the nearest in K; None without one."""
        problem = self._interface.makeNvMatmulHeuristicsProblem(*shape, self._layout)
        precision = _PRECISIONS[specs[0].dtype]
        for ranked in self._interface.get(problem, CANDIDATES, precision=precision):
            found = ranked["kernel"]
            alike = [
                spec
                for spec in specs
                if (spec.tile.m, spec.tile.n) == (found.cta_tile_m, found.cta_tile_n)
            ]
            if alike:
                return min(alike, key=lambda spec: abs(spec.tile.k - found.cta_tile_k))
        return None


def choose_tiles(
    specs: Sequence[KernelSpec],
    shapes: Sequence[Shape],
    profile: MachineProfile,
    heuristics: TileHeuristics | None,
) -> list[TileChoice]:
    """For every product and every kernel that has several tiles: which one is chosen."""
    choices = []
    for name, dtype in dict.fromkeys((spec.name, spec.dtype) for spec in specs):
        tiles = [spec for spec in specs if (spec.name, spec.dtype) == (name, dtype)]
        if name not in KERNELS or len(tiles) < 2:
            continue
        for m, n, k in shapes:
            problem = GemmProblem(m=m, n=n, k=k, dtype=dtype, memory="pinned")
            planned = choose_plan(problem, profile, PlanOptions(kernel=name, f=0)).spec
            assert planned is not None, "a GPU computes rows with a kernel"
            found = heuristics.choose((m, n, k), tiles) if heuristics else None
            heuristic = None if found is None else str(found.tile)
            choices.append(TileChoice(m, n, k, dtype, name, str(planned.tile), heuristic))
    return choices
