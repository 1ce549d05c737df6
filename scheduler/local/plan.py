"""Plans in a caller's own process: `wavetrim.plan`."""

from collections.abc import Callable
from typing import Any

from wavetrim.kernels.device import DeviceInfo, select_devices
from wavetrim.scheduler.errors import PlanError, ProblemError
from wavetrim.scheduler.local.empty import name_dtype
from wavetrim.scheduler.local.machine import LocalMachine, LocalOptions
from wavetrim.scheduler.options import (
    PlanOptions,
    check_devices,
    check_rows,
    check_sms,
    find_accuracy,
    read_whole,
)
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, find_memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import CUDA_NAMES, find_preset
from wavetrim.scheduler.profile.store import find_profile, is_elsewhere
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if


def plan_locally(
    find_machine: Callable[[bool], LocalMachine],
    read_options: Callable[[], LocalOptions],
    *,
    m: int,
    n: int,
    k: int,
    dtype: Any,
    memory: str,
    device: str | None,
    kernel: str,
    tile: str | None,
    f: Any,
    accuracy: str | None,
    sms: int | None,
    devices: str | None,
    resident: bool,
    what_if: WhatIf,
) -> Plan:
    """Choose the plan of a product on this machine, on another local GPU, or on a preset.

    Args:
        find_machine: Returns this machine, given whether its GPU may be used.
        read_options: Returns the options of this machine.
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A and rows of B.
        dtype: Element type, as NumPy takes it.
        memory: Kind of host memory of the operands.
        device: None for this machine, "cpu", a local GPU, a preset, or several of one preset.
        kernel: A name of the catalog, or "auto".
        tile: A tile of that kernel.
        f: Rows of C for the CPU, or "auto".
        accuracy: Accuracy of the GPU's sums.
        sms: Limit of multiprocessors.
        devices: GPUs that may be used.
        resident: Whether B is supposed to be on the GPUs already.
        what_if: Numbers that take the place of the machine's.

    Raises:
        FieldError: An argument cannot be met.
    """
    m, n, k = (_read_size(name, size) for name, size in (("m", m), ("n", n), ("k", k)))
    if not isinstance(resident, bool):
        raise ProblemError("resident", resident, "True or False")
    kind = find_memory(memory)
    problem = GemmProblem(m, n, k, name_dtype(dtype), kind, resident)
    options = PlanOptions(
        kernel=kernel,
        tile=tile,
        f=check_rows(f),
        accuracy=None if accuracy is None else find_accuracy(accuracy),
        sms=check_sms(sms),
        devices=check_devices(devices),
    )
    local = read_options()
    gpus = _find_gpus(device, local)
    problem.check_fits(None if is_elsewhere(device, gpus) else local.memory_bytes)
    profile = _find_profile(device, gpus, find_machine, local)
    return choose_plan(problem, apply_what_if(profile, what_if, problem.dtype), options)


def _read_size(name: str, size: object) -> int:
    if (whole := read_whole(size)) is not None:
        return whole
    raise ProblemError(name, size, "a whole number from 1")


def _find_gpus(device: str | None, local: LocalOptions) -> tuple[DeviceInfo, ...]:
    """This machine's GPUs if the device may be one of them; otherwise planning needs none."""
    if device is not None and not isinstance(device, str):
        raise PlanError("device", device, "None or a name")
    if device is None or device.casefold() == "cpu":
        return ()
    is_cuda_name = device.casefold() in map(str.casefold, CUDA_NAMES)
    return select_devices(local.devices) if is_cuda_name or not find_preset(device) else ()


def _find_profile(
    device: str | None,
    gpus: tuple[DeviceInfo, ...],
    find_machine: Callable[[bool], LocalMachine],
    local: LocalOptions,
) -> MachineProfile:
    if device is None or device.casefold() == "cpu":
        return find_machine(device is None).planned.find_profile(cpu_only=device is not None)
    return find_profile(
        device,
        devices=gpus,
        directory=local.profile_dir,
        cpu_threads=local.count_threads(),
    )
