"""The launch cache: prepared launches of steps, for products that repeat them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.partials import Workspace
from wavetrim.kernels.gemm.prepared import Call, PreparedLaunch
from wavetrim.kernels.gemm.resident import prepare_product
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.pipeline.places import PlacedStep

MOST_KEPT: Final = 16384
"""Most cached launches: a product has up to 50. Chosen: each takes some KB of host memory."""


class LaunchOptions:
    """What a launch depends on besides addresses: kernel, α, β and limit of multiprocessors.

    Args:
        product: The product; its operands are not kept.
    """

    def __init__(self, product: HostProduct) -> None:
        self.spec, self.sms = product.spec, product.sms
        self._alpha, self._beta = product.alpha, product.beta

    def prepare(self, placed: PlacedStep, cache_dir: Path, workspace: Workspace) -> PreparedLaunch:
        """Prepare the launch of a step."""
        beta = self._beta if placed.step.first else 1.0
        return prepare_product(
            self.spec,
            Product(placed.a, placed.b, placed.c, placed.a.columns, self._alpha, beta),
            cache_dir,
            sms=self.sms,
            splits=placed.splits,
            workspace=workspace,
        )


class LaunchCache:
    """Prepared launches of the steps of all products computed in the same device memory.

    Args:
        cache_dir: Folder of compiled kernels.
    """

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._workspace = Workspace()
        self._options = LastUsed[tuple[object, ...], LaunchOptions](MOST_KEPT)
        self._kept = LastUsed[tuple[PlacedStep, LaunchOptions], PreparedLaunch](MOST_KEPT)

    def find_options(self, product: HostProduct) -> LaunchOptions:
        """The launch options of a product; the same object for equal options."""
        key = product.spec, product.alpha, product.beta, product.sms
        options = self._options.find(key)
        if options is None:
            options = LaunchOptions(product)
            self._options.keep(key, options)
        return options

    def enqueue(self, options: LaunchOptions, placed: PlacedStep, stream: int) -> None:
        """Enqueue the launch of a step without waiting.

        Args:
            options: The launch options.
            placed: The step.
            stream: Address of CuPy's current stream, always the same one.

        Raises:
            KernelsError: As for `prepare_product` and `PreparedLaunch.enqueue`.
        """
        self._find(options, placed).enqueue(stream)

    def list_calls(
        self, product: HostProduct, steps: Sequence[PlacedStep]
    ) -> list[tuple[Call, ...]] | None:
        """The calls of each step's launch; all have commands.

        Args:
            product: The product.
            steps: Its steps, in order.

        Returns:
            The calls; None if one cannot be a command, or a launch may not be kept (`lasting`).

        Raises:
            KernelsError: As for `prepare_product`.
        """
        options = self.find_options(product)
        launches = [self._find(options, placed) for placed in steps]
        if not all(launch.lasting for launch in launches):
            return None
        calls = [launch.calls for launch in launches]
        if any(call.command is None for part in calls for call in part):
            return None
        return calls

    def _find(self, options: LaunchOptions, placed: PlacedStep) -> PreparedLaunch:
        """The prepared launch of a step."""
        launch = self._kept.find((placed, options))
        if launch is None:
            launch = options.prepare(placed, self._cache_dir, self._workspace)
            if launch.lasting:
                self._kept.keep((placed, options), launch)
        return launch

    def clear(self) -> None:
        """Drop all launches, and free the memory for partial sums."""
        self._kept.clear()
        self._options.clear()
        self._workspace.free()
