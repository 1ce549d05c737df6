"""What a node's engine may use, by its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wavetrim.kernels.pipeline.residents import RESIDENT_SHARE


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node's engine may use; its paths are those of the node.

    Attributes:
        cache_dir: Folder of compiled kernels, and of compiled C.
        profile_dir: Folder of stored calibrations; None for none.
        devices: GPUs to use: "none", or indices such as "0,1"; None for all.
        cpu_threads: Threads of the CPU part; None for all usable cores.
        gpu_memory_bytes: Limit of GPU memory; None for all free memory.
        resident_share: Share of that memory in which a B of many products may stay.
        stall_seconds: Time without progress of a GPU after which the process ends.
    """

    cache_dir: Path
    profile_dir: Path | None = None
    devices: str | None = None
    cpu_threads: int | None = None
    gpu_memory_bytes: int | None = None
    resident_share: float = RESIDENT_SHARE
    stall_seconds: float = 60.0

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "NodeOptions":
        """The options by the environment: the variables are those of a service's settings."""
        home = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wavetrim"

        def find(name: str) -> str | None:
            return environment.get(f"WAVETRIM_{name}") or None

        cpu_threads, gpu_memory_bytes = find("CPU_THREADS"), find("GPU_MEMORY_BYTES")
        return cls(
            cache_dir=Path(find("KERNEL_CACHE_DIR") or home / "kernels"),
            profile_dir=Path(find("PROFILE_DIR") or home / "profiles"),
            devices=find("DEVICES"),
            cpu_threads=None if cpu_threads is None else int(cpu_threads),
            gpu_memory_bytes=None if gpu_memory_bytes is None else int(gpu_memory_bytes),
            resident_share=float(find("RESIDENT_SHARE") or RESIDENT_SHARE),
            stall_seconds=float(find("STALL_SECONDS") or 60.0),
        )
