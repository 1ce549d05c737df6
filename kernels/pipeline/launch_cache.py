"""The launches of steps, kept for products that have the same ones again."""

from pathlib import Path
from typing import Final

from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.partials import FLAG_SETS, Workspace
from wavetrim.kernels.gemm.prepared import PreparedLaunch
from wavetrim.kernels.gemm.resident import prepare_product
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.pipeline.places import PlacedStep

MOST_KEPT: Final = 4096
"""Launches that are kept; some KB of host memory each."""


class LaunchOptions:
    """What a step is launched with beside its places: kernel, α, β and multiprocessors.

    Args:
        product: What is computed; no more of it is kept.
    """

    def __init__(self, product: HostProduct) -> None:
        self.spec, self.sms = product.spec, product.sms
        self._alpha, self._beta = product.alpha, product.beta

    def prepare(
        self, number: int, placed: PlacedStep, cache_dir: Path, workspace: Workspace
    ) -> PreparedLaunch:
        """The launch of a step, as `prepare_product` prepares it."""
        beta = self._beta if placed.step.first else 1.0
        return prepare_product(
            self.spec,
            Product(placed.a, placed.b, placed.c, placed.a.columns, self._alpha, beta),
            cache_dir,
            sms=self.sms,
            splits=placed.splits,
            workspace=workspace,
            number=number,
        )


class LaunchCache:
    """Prepared launches of the steps of all products that have been computed in the same memory.

    Args:
        cache_dir: Folder of compiled kernels.
    """

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._workspace = Workspace()
        self._options: dict[tuple[object, ...], LaunchOptions] = {}
        self._kept: dict[tuple[PlacedStep, LaunchOptions], PreparedLaunch] = {}

    def find_options(self, product: HostProduct) -> LaunchOptions:
        """What the steps of a product are launched with: the same for products that are alike."""
        if max(len(self._kept), len(self._options)) >= MOST_KEPT:
            self._forget()
        key = product.spec, product.alpha, product.beta, product.sms
        options = self._options.get(key)
        if options is None:
            options = self._options[key] = LaunchOptions(product)
        return options

    def enqueue(
        self, options: LaunchOptions, number: int, placed: PlacedStep, stream: int, *, recurs: bool
    ) -> None:
        """Enqueue the launch of a step; does not wait.

        Args:
            options: What it is launched with.
            number: Of the step in its product, whose steps are enqueued in their order.
            placed: The step.
            stream: Address of CuPy's current stream, always the same.
            recurs: Whether the step, under this number, may come again.

        Raises:
            KernelsError: As `prepare_product` and `PreparedLaunch.enqueue` raise.
        """
        launch = self._kept.get((placed, options))
        if launch is None:
            launch = options.prepare(number, placed, self._cache_dir, self._workspace)
            if recurs and launch.lasting:
                self._kept[placed, options] = launch
        if number % FLAG_SETS == 0 and options.spec.splits_tail:
            self._workspace.clear(stream)
        launch.enqueue(stream)

    def clear(self) -> None:
        """Forget all, and give the memory for partial sums back."""
        self._forget()
        self._workspace.free()

    def _forget(self) -> None:
        self._kept.clear()
        self._options.clear()
