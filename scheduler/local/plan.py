"""Plans in a caller's own process: `wavetrim.plan`."""

from collections.abc import Callable
from typing import Any, SupportsIndex

from wavetrim.kernels.device import select_devices
from wavetrim.scheduler.errors import ProblemError
from wavetrim.scheduler.local.empty import name_dtype
from wavetrim.scheduler.local.machine import LocalMachine, LocalOptions
from wavetrim.scheduler.options import PlanOptions, check_devices, check_rows, find_accuracy
from wavetrim.scheduler.planning.plan import Plan, choose_plan
from wavetrim.scheduler.problem import GemmProblem, find_memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import find_preset
from wavetrim.scheduler.profile.store import find_profile


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

    Raises:
        FieldError: An argument cannot be met.
    """
    for name, size in (("m", m), ("n", n), ("k", k)):
        if not isinstance(size, SupportsIndex):
            raise ProblemError(name, size, "a whole number from 1")
    problem = GemmProblem(int(m), int(n), int(k), name_dtype(dtype), find_memory(memory))
    options = PlanOptions(
        kernel=kernel,
        tile=tile,
        f=check_rows(f),
        accuracy=None if accuracy is None else find_accuracy(accuracy),
        sms=sms,
        devices=check_devices(devices),
    )
    return choose_plan(problem, _find_profile(device, find_machine, read_options), options)


def _find_profile(
    device: str | None,
    find_machine: Callable[[bool], LocalMachine],
    read_options: Callable[[], LocalOptions],
) -> MachineProfile:
    if device is None or device.casefold() == "cpu":
        return find_machine(device is None).find_profile(cpu_only=device is not None)
    options = read_options()
    # Presets need no local GPU, so none is looked for.
    devices = () if find_preset(device) else select_devices(options.devices)
    return find_profile(
        device,
        devices=devices,
        directory=options.profile_dir,
        cpu_threads=options.count_threads(),
    )
