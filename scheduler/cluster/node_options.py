"""What a node's engine may use, by its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ByteSize, Field, TypeAdapter, ValidationError

from wavetrim.kernels.device import DEVICES_SETTING
from wavetrim.scheduler.cluster.start import NodeRefused

_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "DEVICES": (
        Annotated[str, Field(pattern=DEVICES_SETTING)],
        "`none`, or indices such as `0,1`, or UUIDs",
    ),
    "CPU_THREADS": (Annotated[int, Field(ge=1)], "a whole number of at least 1"),
    "GPU_MEMORY_BYTES": (
        Annotated[ByteSize, Field(gt=0)],
        "more than 0 bytes, as a whole number or with a unit, such as `4GiB`",
    ),
    "STALL_SECONDS": (Annotated[float, Field(gt=0)], "a number of seconds greater than 0"),
}
"""Type and limit, in words, of each variable: those of the service's settings."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node's engine may use; its paths are those of the node.

    Attributes:
        cache_dir: Folder of compiled kernels, and of compiled C.
        profile_dir: Folder of stored calibrations; None for none.
        devices: GPUs to use: "none", or indices such as "0,1"; None for all.
        cpu_threads: Threads of the CPU part; None for all usable cores.
        gpu_memory_bytes: Limit of GPU memory; None for all free memory.
        stall_seconds: Time without progress of a GPU after which the process ends.
    """

    cache_dir: Path
    profile_dir: Path | None = None
    devices: str | None = None
    cpu_threads: int | None = None
    gpu_memory_bytes: int | None = None
    stall_seconds: float = 60.0

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "NodeOptions":
        """The options by the environment: the variables are those of a service's settings.

        Raises:
            NodeRefused: One is out of its limits.
        """
        home = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wavetrim"
        given = {
            name.lower(): _parse(name, text)
            for name in _KINDS
            if (text := environment.get(f"WAVETRIM_{name}"))
        }
        return cls(
            cache_dir=Path(environment.get("WAVETRIM_KERNEL_CACHE_DIR") or home / "kernels"),
            profile_dir=Path(environment.get("WAVETRIM_PROFILE_DIR") or home / "profiles"),
            **given,
        )


def _parse(name: str, text: str) -> Any:
    kind, limit = _KINDS[name]
    try:
        return TypeAdapter(kind).validate_python(text)
    except ValidationError as error:
        raise NodeRefused(f"WAVETRIM_{name}", text, limit) from error
