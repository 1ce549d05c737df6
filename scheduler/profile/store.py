"""Finds profiles: a calibration of this machine, a preset, or an estimate. Stores calibrations.

Calibrations are JSON files. Each is for one GPU (or CPU-only machine), driver and set of libraries,
so old figures are never used with a new driver or library.
"""

import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.errors import PlanError, ProfileError
from wavetrim.scheduler.model.cpu import CpuModel
from wavetrim.scheduler.profile.estimate import estimate_cpu, estimate_kernels, estimate_links
from wavetrim.scheduler.profile.machine import GpuModel, MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS, find_preset, list_meant
from wavetrim.scheduler.profile.shared_file import replace_text
from wavetrim.scheduler.profile.what_if import set_cpu

logger = logging.getLogger(__name__)

_LANES_AN_SM: Final[dict[tuple[int, int], int]] = {(7, 5): 64, (8, 0): 64}
"""float32 lanes of a multiprocessor, by compute capability; 128 of all others."""

RUNS_SUFFIX: Final = ".runs.json"
"""End of the name of the file with a calibration's runs, in the same folder."""

_LIBRARIES: Final = ("wavetrim", "numpy", "cupy-cuda13x", "nvidia-cublas")
"""Distributions whose versions are part of a calibration's key."""


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
    if device is not None and device.casefold() == "cpu":
        return _find_local(None, directory, cpu_threads)
    if device is None and devices:
        gpus = tuple(_find_local(info, directory, cpu_threads) for info in devices)
        return replace(gpus[0], beside=gpus[1:])
    local = find_device(device, devices)
    if local is not None or device is None:
        return _find_local(local, directory, cpu_threads)
    named, count = _read_count(device)
    preset = find_preset(named)
    if preset is None:
        meant = [preset.name for preset in list_meant(device)]
        here = [name for info in devices for name in (f"cuda:{info.index}", info.name)]
        names = meant or ["cpu", *here, *(preset.name for preset in PRESETS)]
        raise PlanError("device", device, f"one of {', '.join(names)}")
    source = f"preset {preset.name}: {preset.source}"
    return build_profile_elsewhere(preset, source, count, directory, cpu_threads)


def build_profile_elsewhere(
    gpu: GpuModel, source: str, count: int, directory: Path | None, cpu_threads: int
) -> MachineProfile:
    """The profile of this machine's CPU with so many GPUs of a data sheet."""
    profile = build_preset_profile(gpu, source, cpu_threads)
    cpu = find_measured_cpu(directory, cpu_threads)
    profile = profile if cpu is None else set_cpu(profile, cpu)
    others = tuple(replace(profile, index=index) for index in range(1, count))
    return replace(profile, beside=others)


def _read_count(device: str) -> tuple[str, int]:
    """The name of a preset, and how many of it: "H200 x2" → ("H200", 2)."""
    found = re.fullmatch(r"(.+?) ?x([1-9]|1[0-6])", device)
    return (found[1], int(found[2])) if found and not find_preset(device) else (device, 1)


def find_measured_cpu(directory: Path | None, cpu_threads: int) -> CpuModel | None:
    """This machine's CPU by its newest calibration, whichever GPU that was made with."""
    wanted = read_key(None, cpu_threads)
    found: list[MachineProfile] = []
    with contextlib.suppress(OSError):  # a folder that cannot be read
        for path in [] if directory is None else sorted(directory.glob("*.json")):
            if not path.name.endswith(RUNS_SUFFIX):
                with contextlib.suppress(FileNotFoundError, ProfileError):
                    found.append(complete_rates(load_profile(path)))
    fitting = [
        profile
        for profile in found
        if profile.measured_at is not None
        and all(profile.key.get(name) == wanted[name] for name in ("numpy", "cpu_threads"))
    ]
    newest = max(fitting, key=lambda profile: profile.measured_at or "", default=None)
    return None if newest is None else newest.cpu


def build_preset_profile(gpu: GpuModel, source: str, cpu_threads: int) -> MachineProfile:
    """A profile from a GPU's data sheet and the number of CPU threads."""
    return MachineProfile(
        device=gpu.name,
        source=source,
        cpu=estimate_cpu(cpu_threads, gpu),
        gpu=gpu,
        links=estimate_links(gpu),
        kernels=estimate_kernels(gpu),
    )


def complete_rates(profile: MachineProfile) -> MachineProfile:
    """The profile with estimated rates of element types that its CPU was not measured with.

    Each has the estimated ratio to the measured rate of float32.
    """
    measured = {rate.dtype for rate in profile.cpu.rates}
    estimated = {rate.dtype: rate for rate in estimate_cpu(profile.cpu.threads).rates}
    ratio = profile.find_cpu_rate("float32").gflops / estimated["float32"].gflops
    missing = (
        replace(rate, gflops=rate.gflops * ratio, source=f"{rate.source}, scaled to its float32")
        for rate in estimated.values()
        if rate.dtype not in measured
    )
    return replace(profile, cpu=replace(profile.cpu, rates=(*profile.cpu.rates, *missing)))


def complete_kernels(profile: MachineProfile) -> MachineProfile:
    """The profile with estimated times for the kernels of its GPU that were not measured."""
    if profile.gpu is None:
        return profile
    measured = profile.index_kernels()
    missing = (
        model
        for model in estimate_kernels(profile.gpu)
        if (model.kernel, model.dtype, model.tile) not in measured
    )
    return replace(profile, kernels=(*profile.kernels, *missing))


def describe_gpu(info: DeviceInfo) -> GpuModel:
    """The data sheet of a local GPU: its preset, else derived from its properties."""
    preset = find_preset(info.name)
    if preset is not None:
        return preset
    lanes = _LANES_AN_SM.get(info.compute_capability, 128)
    float32_gflops = info.sm_count * lanes * 2 * info.clock_mhz / 1e3
    float64_gflops = float32_gflops / 64
    return GpuModel(
        name=info.name,
        sm_count=info.sm_count,
        compute_capability=info.compute_capability,
        clock_mhz=info.clock_mhz,
        memory_bytes=info.memory_bytes,
        # Some devices do not tell their memory's clock.
        memory_gbytes_per_second=(info.memory_clock_mhz or info.clock_mhz) * 2 * 256 / 8 / 1e3,
        link_gbytes_per_second=15.8,
        float32_gflops=float32_gflops,
        float64_gflops=float64_gflops,
        float64_tensor_gflops=float64_gflops,
        float16_tensor_gflops=2 * float32_gflops,
        source="derived from the device's own properties; run `wavetrim calibrate` to measure",
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
    """Write a calibration atomically, named by its key; returns the file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / _name_file(profile.key)
    replace_text(path, json.dumps(profile.as_dict(), indent=1) + "\n")
    return path


def load_profile(path: Path) -> MachineProfile:
    """Read a calibration.

    Raises:
        FileNotFoundError: There is no such file.
        ProfileError: It cannot be read, or is not a profile of this format.
    """
    try:
        return MachineProfile.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError, ProfileError) as error:
        raise ProfileError(f"{path} cannot be read: {error}") from error


def _find_local(
    info: DeviceInfo | None, directory: Path | None, cpu_threads: int
) -> MachineProfile:
    hint = "run `wavetrim calibrate` to measure this machine"
    if directory is not None:
        path = find_calibration(info, directory, cpu_threads)
        try:
            profile = complete_kernels(complete_rates(load_profile(path)))
            return replace(profile, index=info.index if info else 0)
        except FileNotFoundError:
            pass
        except ProfileError as error:
            logger.warning("a calibration is passed over: %s", error)
            hint = "the stored calibration cannot be read; run `wavetrim calibrate` again"
    if info is None:
        return MachineProfile("cpu", f"estimate, no GPU; {hint}", estimate_cpu(cpu_threads))
    gpu = describe_gpu(info)
    profile = build_preset_profile(gpu, f"data sheet of {gpu.name}; {hint}", cpu_threads)
    return replace(profile, index=info.index)


def find_device(device: str | None, devices: Sequence[DeviceInfo]) -> DeviceInfo | None:
    """The local GPU of that name, or the first one for None; None if there is none."""
    if device is None:
        return devices[0] if devices else None
    wanted = device.casefold()
    for info in devices:
        if wanted in (f"cuda:{info.index}", info.uuid.casefold(), info.name.casefold()):
            return info
    return None


def is_elsewhere(device: str | None, devices: Sequence[DeviceInfo]) -> bool:
    """Whether a name is not that of a device of this machine, but of one or several presets."""
    is_cpu = device is not None and device.casefold() == "cpu"
    return device is not None and not is_cpu and find_device(device, devices) is None


def _name_file(key: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    return f"{key['gpu_uuid']}-{digest[:16]}.json"


def _find_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "none"
