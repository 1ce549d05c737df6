"""Plans in a caller's own process: `wavetrim.plan`."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from wavetrim.cpu.threads import count_default_threads
from wavetrim.kernels.device import select_devices
from wavetrim.scheduler.errors import PlanError, ProblemError
from wavetrim.scheduler.local.process import find_machine
from wavetrim.scheduler.options import (
    MachineOptions,
    PlanOptions,
    check_rows,
    check_sms,
    read_whole,
)
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, find_memory, name_dtype
from wavetrim.scheduler.profile.presets import CUDA_NAMES, find_preset
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if


def plan_locally(
    read_options: Callable[[], MachineOptions],
    *,
    m: int,
    n: int,
    k: int,
    dtype: Any,
    memory: str,
    device: str | None,
    resident: bool,
    options: PlanOptions,
    what_if: WhatIf,
) -> Plan:
    """The plan of a product: `wavetrim.plan`, which describes the arguments.

    `read_options` returns the options of this machine; `options` are as they were given.

    Raises:
        FieldError: An argument cannot be met.
    """
    m, n, k = (_read_size(name, size) for name, size in (("m", m), ("n", n), ("k", k)))
    if not isinstance(resident, bool):
        raise ProblemError("resident", resident, "True or False")
    kind = find_memory(memory)
    problem = GemmProblem(m, n, k, name_dtype(dtype), kind, resident)
    options = replace(options, f=check_rows(options.f), sms=check_sms(options.sms))
    if device is not None and not isinstance(device, str):
        raise PlanError("device", device, "None or a name")
    if device is None or device.casefold() == "cpu":
        machine = find_machine(read_options, needs_gpu=device is None)
        problem.check_fits(machine.options.memory_bytes)
        profile = machine.planned.find_profile(cpu_only=device is not None)
    else:
        profiles, memory_bytes = _open_profiles(read_options, device)
        problem.check_fits(memory_bytes)
        profile = profiles.find(device)
    return choose_plan(problem, apply_what_if(profile, what_if, problem.dtype), options)


def _read_size(name: str, size: object) -> int:
    if (whole := read_whole(size)) is not None:
        return whole
    raise ProblemError(name, size, "a whole number from 1")


@lru_cache(maxsize=64)  # what it reads stays as it is while a process runs
def _open_profiles(
    read_options: Callable[[], MachineOptions], device: str
) -> tuple[ProfileProvider, int | None]:
    """The profiles of a GPU that is named, and this machine's memory if the GPU is here."""
    local = read_options()
    # To plan for a preset lists no GPUs, unless CUDA calls one of them so.
    may_be_here = device.casefold() in map(str.casefold, CUDA_NAMES) or not find_preset(device)
    profiles = ProfileProvider(
        directory=local.profile_dir,
        devices=select_devices(local.devices) if may_be_here else (),
        cpu_threads=local.cpu_threads or count_default_threads(),
    )
    return profiles, None if profiles.is_elsewhere(device) else local.memory_bytes


os.register_at_fork(after_in_child=_open_profiles.cache_clear)  # another thread may have its lock
