"""Gauges: metrics of the moment, set from the service's parts when they are read."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.profile.corrections import Factor
from wavetrim.service.jobs.lanes.host_lanes import LaneState

_GPU_READINGS: Final = {
    "memory_used_bytes": "Device memory in use, by whomever.",
    "clock_mhz": "Clock of the multiprocessors.",
    "memory_clock_mhz": "Clock of the memory.",
    "temperature_celsius": "Temperature of the chip.",
    "power_watts": "Power that it takes.",
}


_RESIDENTS: Final = ("limit_bytes", "size_bytes", "operands", "uses", "fetches", "evictions")
"""What the engine reports of the matrices that stay on a GPU."""


class Gauges:
    """The gauges of one service.

    Attributes:
        jobs_by_state: Jobs in the database by `state`.
        queue_depth: Jobs that wait.
        products: Products in the lane, `waiting` or `running`.
        arena: Sizes and counts of the arena and its leases, by `what`.
        stored_bytes: Bytes of all matrices.
        lost_files: Files that the database does not know.
        free_bytes: Bytes that the matrices' file system has free, without the reserve.
        bytes_in_flight: Bytes that requests hold in memory.
        limits: Limits in the settings, by `what`.
        nodes: Nodes of the cluster.
        database_up: 1 while the database answers.
        engine_ready: 1 while the engine takes products.
        degraded: 1 while the engine lacks a GPU.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def make(name: str, words: str, *labels: str) -> Gauge:
            return Gauge(name, words, labels, registry=registry)

        self.jobs_by_state = make("wavetrim_jobs", "Jobs in the database.", "state")
        self.queue_depth = make("wavetrim_queue_depth", "Jobs that wait.")
        self.products = make("wavetrim_products", "Products in the lane to the engine.", "state")
        self._busy = make(
            "wavetrim_device_busy_seconds",
            "For how long a device should work at what it has.",
            "device",
        )
        self._longest_wait = make(
            "wavetrim_longest_wait_seconds",
            "The longest time until the devices of a product that waits are free together.",
        )
        self.arena = make("wavetrim_arena", "The arena: sizes in bytes, and counts.", "what")
        self.stored_bytes = make("wavetrim_stored_bytes", "Bytes of all stored matrices.")
        self.lost_files = make(
            "wavetrim_lost_files", "Matrix files that the database does not know."
        )
        self.free_bytes = make(
            "wavetrim_free_bytes", "What the matrices' file system has left beside the reserve."
        )
        self.bytes_in_flight = make(
            "wavetrim_bytes_in_flight", "Bytes that callers' requests and leases hold in memory."
        )
        self.limits = make("wavetrim_limit", "What the settings allow.", "what")
        self.nodes = make("wavetrim_nodes", "Nodes of the cluster that take products.")
        self.database_up = make("wavetrim_database_up", "1 while the database answers.")
        self.engine_ready = make("wavetrim_engine_ready", "1 while the engine takes products.")
        self.degraded = make("wavetrim_degraded", "1 while the engine lacks a GPU it should have.")
        self._factor = make(
            "wavetrim_correction_factor",
            "Median of measured over predicted seconds, by device, memory and bottleneck.",
            "runs_like",
        )
        self._runs = make(
            "wavetrim_correction_runs",
            "Runs that a correction factor is from: at most the newest 15 of the kind.",
            "runs_like",
        )
        self._gpu_memory = make("wavetrim_gpu_memory_bytes", "Device memory.", "gpu", "name")
        self._residents = make(
            "wavetrim_residents",
            "Stored matrices that stay on a GPU: sizes in bytes, and counts of its engine's life.",
            "gpu", "what",
        )  # fmt: skip
        self._gpu_readings = {
            field: make(f"wavetrim_gpu_{field}", words, "gpu")
            for field, words in _GPU_READINGS.items()
        }

    def show_lanes(self, lanes: Iterable[LaneState], longest_wait_seconds: float) -> None:
        """Sets how long each device is busy, and the longest wait for several devices."""
        self._busy.clear()
        for one in lanes:
            self._busy.labels(one.device).set(one.busy_seconds)
        self._longest_wait.set(longest_wait_seconds)

    def show_corrections(self, corrections: Mapping[str, Factor]) -> None:
        """Sets the corrections of the model's predictions, by kind of run."""
        self._factor.clear()
        self._runs.clear()
        for kind, factor in corrections.items():
            self._factor.labels(kind).set(factor.reported)
            self._runs.labels(kind).set(factor.runs)

    def show_gpus(
        self, devices: Iterable[DeviceInfo], readings: Iterable[Mapping[str, Any]]
    ) -> None:
        """Sets the GPUs' gauges; unknown ones have no value."""
        for gauge in (self._gpu_memory, *self._gpu_readings.values()):
            gauge.clear()
        for info in devices:
            self._gpu_memory.labels(str(info.index), info.name).set(info.memory_bytes)
        for reading in readings:
            for field, gauge in self._gpu_readings.items():
                if field in reading:
                    gauge.labels(str(reading["index"])).set(reading[field])

    def show_residents(self, residents: Iterable[Mapping[str, Any]]) -> None:
        """Sets what stays on each GPU."""
        self._residents.clear()
        for one in residents:
            for what in _RESIDENTS:
                self._residents.labels(str(one["index"]), what).set(one[what])
