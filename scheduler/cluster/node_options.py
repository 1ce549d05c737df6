"""What a node's engine may use, by its environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ByteSize, Field, TypeAdapter, ValidationError

from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import DEVICES_SETTING
from wavetrim.scheduler.cluster.start import NodeRefused
from wavetrim.scheduler.engine.process import EngineOptions

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


def read_options(environment: Mapping[str, str]) -> EngineOptions:
    """What a node's engine may use: the variables are those of a service's settings.

    Ray allows it one thread, so all usable cores are its own unless that is said.

    Raises:
        NodeRefused: One is out of its limits.
    """
    home = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wavetrim"
    given = {
        name.lower(): _parse(name, text)
        for name in _KINDS
        if (text := environment.get(f"WAVETRIM_{name}"))
    }
    return EngineOptions(
        cache_dir=Path(environment.get("WAVETRIM_KERNEL_CACHE_DIR") or home / "kernels"),
        profile_dir=Path(environment.get("WAVETRIM_PROFILE_DIR") or home / "profiles"),
        **{"cpu_threads": usable_cores(), **given},
    )


def _parse(name: str, text: str) -> Any:
    kind, limit = _KINDS[name]
    try:
        return TypeAdapter(kind).validate_python(text)
    except ValidationError as error:
        raise NodeRefused(f"WAVETRIM_{name}", text, limit) from error
