"""The launch cache: prepared launches of steps, for products that repeat them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wavetrim.kernels.gemm.dispatch import prepare_product
from wavetrim.kernels.gemm.operands import Product
from wavetrim.kernels.gemm.partials import Workspace
from wavetrim.kernels.gemm.prepared import Call, PreparedLaunch
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.pipeline.step_layouts import StepLayout

MOST_CACHED: Final = 16384
"""Most cached launches; a product has up to 50. Chosen: each takes some KB of host memory."""


class LaunchOptions:
    """What a launch depends on, apart from addresses: kernel, α, β and limit of multiprocessors.

    Args:
        product: The product; no reference to its operands stays.
    """

    def __init__(self, product: HostProduct) -> None:
        self.spec, self.sms = product.spec, product.sms
        self._alpha, self._beta = product.alpha, product.beta

    def prepare(self, layout: StepLayout, cache_dir: Path, workspace: Workspace) -> PreparedLaunch:
        """Prepare the launch of a step."""
        beta = self._beta if layout.step.first else 1.0
        return prepare_product(
            self.spec,
            Product(layout.a, layout.b, layout.c, layout.a.columns, self._alpha, beta),
            cache_dir,
            sms=self.sms,
            terms=layout.terms,
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
        self._options = LastUsed[tuple[object, ...], LaunchOptions](MOST_CACHED)
        self._launches = LastUsed[tuple[StepLayout, LaunchOptions], PreparedLaunch](MOST_CACHED)

    def find_options(self, product: HostProduct) -> LaunchOptions:
        """The launch options of a product; the same object for equal options."""
        key = product.spec, product.alpha, product.beta, product.sms
        options = self._options.find(key)
        if options is None:
            options = LaunchOptions(product)
            self._options.keep(key, options)
        return options

    def enqueue(self, options: LaunchOptions, layout: StepLayout, stream: int) -> None:
        """Enqueue the launch of a step without waiting.

        Args:
            options: The launch options.
            layout: The step.
            stream: Address of CuPy's current stream; the same one in all calls.

        Raises:
            KernelsError: As for `prepare_product` and `PreparedLaunch.enqueue`.
        """
        self._find(options, layout).enqueue(stream)

    def list_calls(
        self, product: HostProduct, steps: Sequence[StepLayout]
    ) -> list[tuple[Call, ...]] | None:
        """The calls of each step's launch, for a command buffer.

        Args:
            product: The product.
            steps: Its steps, in order.

        Returns:
            The calls; None if one cannot be a command, or a launch may not be cached (`lasting`).

        Raises:
            KernelsError: As for `prepare_product`.
        """
        options = self.find_options(product)
        launches = [self._find(options, layout) for layout in steps]
        if not all(launch.lasting for launch in launches):
            return None
        calls = [launch.calls for launch in launches]
        if any(call.command is None for part in calls for call in part):
            return None
        return calls

    def _find(self, options: LaunchOptions, layout: StepLayout) -> PreparedLaunch:
        """The prepared launch of a step."""
        launch = self._launches.find((layout, options))
        if launch is None:
            launch = options.prepare(layout, self._cache_dir, self._workspace)
            if launch.lasting:
                self._launches.keep((layout, options), launch)
        return launch

    def clear(self) -> None:
        """Drop all launches, and free the memory for partial sums."""
        self._launches.clear()
        self._options.clear()
        self._workspace.free()
