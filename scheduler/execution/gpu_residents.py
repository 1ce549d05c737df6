"""The B matrices that stay on the GPUs of an executor, by the keys of stored matrices."""

from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any, Final

from numpy.typing import NDArray

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.errors import ExecutionError
from wavetrim.scheduler.execution.watchdog import Watchdog

_LEAST_RATE: Final = 1e9
"""Slowest link that the watchdog accepts, in bytes a second; chosen."""


class GpuResidents:
    """The B matrices that stay on several GPUs. Thread-safe."""

    def __init__(
        self,
        pipelines: Sequence[GpuPipeline],
        gpu_threads: Sequence[CallThreads],
        watchdog: Watchdog | None,
    ) -> None:
        self._pipelines, self._gpu_threads = pipelines, gpu_threads
        self._watchdog = watchdog

    def find_missing(self, key: str, positions: Sequence[int]) -> tuple[int, ...]:
        """The positions of the GPUs that do not have this B."""
        return tuple(one for one in positions if key not in self._pipelines[one].residents)

    def find_holders(self, key: str) -> list[int]:
        """The positions of the GPUs that have this B."""
        return [one for one, pipeline in enumerate(self._pipelines) if key in pipeline.residents]

    def find_limit(self, positions: Sequence[int]) -> int:
        """Bytes of the largest B that each of some GPUs may keep."""
        return min(self._pipelines[position].residents.limit_bytes for position in positions)

    def keep(self, key: str, b: NDArray[Any], positions: Sequence[int]) -> bool:
        """Copy B to some GPUs, each over its own link; as `GpuPipeline.keep`.

        Returns:
            Whether it is on all of them.

        Raises:
            ExecutionError: A device failed.
        """
        keeping = [self._gpu_threads[one].submit(self._keep_on, one, key, b) for one in positions]
        wait(keeping)  # B is read until the last one ends
        try:
            return all(one.result() for one in keeping)
        except DeviceFailure as error:
            raise ExecutionError(str(error), poisoned=error.poisoned) from error

    def _keep_on(self, position: int, key: str, b: NDArray[Any]) -> bool:
        """Copy B to a GPU, in its thread; the watchdog allows for the copy's time."""
        seconds = b.nbytes / _LEAST_RATE
        with self._watchdog.watch(seconds) if self._watchdog else nullcontext():
            return self._pipelines[position].keep(key, b)

    def forget(self, key: str) -> None:
        """Drop a B: its matrix was deleted, or the copy may be wrong."""
        for pipeline in self._pipelines:
            pipeline.residents.forget(key)

    def describe(self) -> list[dict[str, Any]]:
        """Memory and counts of the B matrices on each GPU; JSON-ready."""
        return [
            {"index": pipeline.device_index, **asdict(pipeline.residents.count())}
            for pipeline in self._pipelines
        ]
