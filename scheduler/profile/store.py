"""Finds profiles: a calibration of this machine, a preset, or an estimate. Stores calibrations.

Calibrations are JSON files, whose values are checked when they are read. Each is for one GPU (or
CPU-only machine), driver and set of libraries, so old figures are never used with new ones.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from reprlib import repr as shorten
from typing import TYPE_CHECKING, Any, Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.errors import PlanError, ProfileError
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.estimate import estimate_cpu, estimate_links
from wavetrim.scheduler.profile.machine import CpuModel, GpuModel, MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS, describe_gpu, find_preset

if TYPE_CHECKING:
    from pydantic import TypeAdapter

logger = logging.getLogger(__name__)

_LIBRARIES: Final = ("wavetrim", "numpy", "cupy-cuda13x", "nvidia-cublas")
"""Distributions whose versions are part of a calibration's key."""

FORMAT_VERSION: Final = 8

_NOT_WRITTEN: Final[Any] = {"corrections": True, "beside": {"__all__": {"corrections"}}}


def find_profile(
    device: str | None,
    *,
    devices: Sequence[DeviceInfo],
    directory: Path | None,
    cpu_threads: int,
) -> MachineProfile:
    """The profile to plan with.

    Args:
        device: A local GPU ("cuda:0", its UUID or name), a preset, several of one preset ("H200
            x2"), or "cpu"; None for all of this machine's GPUs, or its CPU if it has none.
        devices: The local GPUs.
        directory: Folder of stored calibrations; None for none.
        cpu_threads: Threads of the CPU path.

    Raises:
        PlanError: `device` is neither local nor a preset.
    """
    if device is None and devices:
        return _join([_find_local(info, directory, cpu_threads) for info in devices])
    if device is None or device.casefold() == "cpu":
        return _find_local(None, directory, cpu_threads)
    local = find_device(device, devices)
    if local is not None:
        return _find_local(local, directory, cpu_threads)
    named, count = _read_count(device)
    preset = find_preset(named)
    if preset is None:
        here = [name for info in devices for name in (f"cuda:{info.index}", info.name)]
        names = ["cpu", *here, *(preset.name for preset in PRESETS)]
        raise PlanError("device", device, f"one of {', '.join(names)}")
    asked = "" if named == preset.name else f" (taken for {named})"
    source = f"preset {preset.name}{asked}: {preset.source}"
    return build_profile_elsewhere(preset, source, count, directory, cpu_threads)


def build_profile_elsewhere(
    gpu: GpuModel, source: str, count: int, directory: Path | None, cpu_threads: int
) -> MachineProfile:
    """The profile of this machine's CPU with `count` GPUs of a data sheet."""
    profile = build_preset_profile(gpu, source, cpu_threads)
    profile = replace(profile, cpu=find_measured_cpu(directory, cpu_threads) or profile.cpu)
    others = tuple(replace(profile, index=index) for index in range(1, count))
    return replace(profile, beside=others)


def _read_count(device: str) -> tuple[str, int]:
    """The name of a preset, and how many of it: "H200 x2" → ("H200", 2)."""
    found = re.fullmatch(r"(.+?) ?x([1-9]|1[0-6])", device)
    return (found[1], int(found[2])) if found and not find_preset(device) else (device, 1)


def find_measured_cpu(directory: Path | None, cpu_threads: int) -> CpuModel | None:
    """This machine's CPU by its newest calibration, whichever GPU that was made with."""
    wanted = read_key(None, cpu_threads)
    fitting: list[tuple[str, CpuModel]] = []
    with contextlib.suppress(OSError):  # a folder that cannot be read
        for path in [] if directory is None else sorted(directory.glob("*.json")):
            with contextlib.suppress(FileNotFoundError, ProfileError):
                found = load_profile(path)
                is_ours = all(found.key.get(one) == wanted[one] for one in ("numpy", "cpu_threads"))
                if is_ours and found.measured_at is not None:
                    fitting.append((found.measured_at, found.cpu))
    return max(fitting, key=itemgetter(0))[1] if fitting else None


def build_preset_profile(gpu: GpuModel, source: str, cpu_threads: int) -> MachineProfile:
    """A profile from a GPU's data sheet and the number of CPU threads."""
    return MachineProfile(
        device=gpu.name,
        source=source,
        cpu=estimate_cpu(cpu_threads),
        gpu=gpu,
        links=estimate_links(gpu),
    )


def read_key(info: DeviceInfo | None, cpu_threads: int) -> dict[str, str]:
    """The key of a calibration: GPU, driver, libraries and CPU threads."""
    key = {name: _find_version(name) for name in _LIBRARIES}
    key["cpu_threads"] = str(cpu_threads)
    key["gpu_uuid"] = info.uuid if info else "none"
    key["driver"] = str(info.driver_version) if info else "none"
    return key


def find_calibration(info: DeviceInfo | None, directory: Path, cpu_threads: int) -> Path:
    """The file of a calibration, whether it exists or not."""
    return directory / _name_file(read_key(info, cpu_threads))


def store_profile(profile: MachineProfile, directory: Path) -> Path:
    """Write a calibration, named by its key; returns the file.

    Readers see the old or the new file, with a new time of change.

    Raises:
        OSError: It cannot be written; the old file is still there.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / _name_file(profile.key)
    # Process ids do not differ between containers, nor between threads.
    part = path.with_suffix(f".{uuid.uuid4().hex}.part")
    try:
        part.write_text(json.dumps(dump_profile(profile), indent=1) + "\n", encoding="utf-8")
        now = time.time_ns()
        os.utime(part, ns=(now, now))  # the kernel's own is the same for some milliseconds
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def load_profile(path: Path) -> MachineProfile:
    """Read a calibration.

    Raises:
        FileNotFoundError: There is no such file.
        ProfileError: It cannot be read, or is not a profile of this format.
    """
    try:
        return read_profile(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError, ProfileError) as error:
        raise ProfileError(f"{path} cannot be read: {error}") from error


def _join(gpus: Sequence[MachineProfile]) -> MachineProfile:
    """The profile of a machine with these GPUs; joint links only if measured with all of them."""
    first = gpus[0]
    is_joint = len(gpus) > 1 and all(one.joint == first.joint for one in gpus)
    return replace(first, beside=tuple(gpus[1:]), joint=first.joint if is_joint else None)


def _find_local(
    info: DeviceInfo | None, directory: Path | None, cpu_threads: int
) -> MachineProfile:
    hint = "run `wavetrim calibrate` to measure this machine"
    if directory is not None:
        path = find_calibration(info, directory, cpu_threads)
        try:
            return replace(load_profile(path), index=info.index if info else 0)
        except FileNotFoundError:
            pass
        except ProfileError as error:
            hint = "the stored calibration is passed over; run `wavetrim calibrate` again"
            logger.warning("%s. It is passed over: run `wavetrim calibrate` again", error)
    if info is None:
        return MachineProfile("cpu", f"estimate, no GPU; {hint}", estimate_cpu(cpu_threads))
    gpu = describe_gpu(info)
    profile = build_preset_profile(gpu, f"data sheet of {gpu.name}; {hint}", cpu_threads)
    return replace(profile, index=info.index)


def find_device(device: str, devices: Sequence[DeviceInfo]) -> DeviceInfo | None:
    """The local GPU of that name; None if there is none."""
    wanted = device.casefold()
    for info in devices:
        if wanted in (f"cuda:{info.index}", info.uuid.casefold(), info.name.casefold()):
            return info
    return None


def is_elsewhere(device: str | None, devices: Sequence[DeviceInfo]) -> bool:
    """Whether a name is not that of a device of this machine, but of one or several presets."""
    return device is not None and device.casefold() != "cpu" and not find_device(device, devices)


def _name_file(key: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    return f"{key['gpu_uuid']}-{digest[:16]}.json"


@cache  # versions stay as they are while a process runs
def _find_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "none"


def dump_profile(profile: MachineProfile) -> dict[str, Any]:
    """A JSON-ready copy without corrections; `read_profile` is the inverse."""
    fields = _find_adapter().dump_python(profile, mode="json", exclude=_NOT_WRITTEN)
    return {"format": FORMAT_VERSION, **fields}


def read_profile(document: object) -> MachineProfile:
    """A profile from its JSON object. Unknown entries are ignored.

    Raises:
        ProfileError: The object has another format, a field is missing, or a value is refused.
    """
    from pydantic import ValidationError

    written = document.get("format") if isinstance(document, Mapping) else None
    if written != FORMAT_VERSION:
        raise _refuse("format", written, str(FORMAT_VERSION))
    try:
        profile = _find_adapter().validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise ProfileError(f"{field} is missing") from error
        limit = first["msg"].removeprefix("Input should be ")
        raise _refuse(field, first["input"], limit) from error
    for one in (profile, *profile.beside):
        memories = tuple(link.memory for link in one.links)
        needed = MEMORIES if one.gpu else ()
        if memories != needed:
            raise _refuse("links", memories, f"for {needed}: for each kind of memory with a GPU")
    return profile


@cache
def _find_adapter() -> "TypeAdapter[MachineProfile]":
    from pydantic import TypeAdapter  # slow, and plans do not need it

    return TypeAdapter(MachineProfile)


def _refuse(field: str, value: object, limit: str) -> ProfileError:
    return ProfileError(f"{field} is {shorten(value)}; it must be {limit}")
