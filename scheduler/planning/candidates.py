"""The kernels that may compute a product, by its options and the machine.

Pure: reads the catalog and a profile. Refusals name field, value and limit.
"""

import re
from collections.abc import Iterable
from typing import Final

from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.errors import UnknownKernel
from wavetrim.kernels.pipeline.resident_cache import MOST_RESIDENT_SHARE
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import (
    ACCURACIES,
    DEFAULT_ACCURACY,
    PlanOptions,
    check_devices,
    find_accuracy,
)
from wavetrim.scheduler.planning.gpu_rows import can_go_straight
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

_ACCURACIES_THAT_MEET: Final[dict[str, tuple[str, ...]]] = {
    "strict": ("strict",),
    "library": ("strict", "library", "float64"),
    "float32": ("strict", "library", "float32"),
    "float64": ("strict", "library", "float64"),
}
"""Requested accuracy → accuracies of the catalog that meet it. "library" and "float64" allow each
other's kernels: libraries use float64 tensor cores, which multiply and add in float64."""


def find_candidates(
    problem: GemmProblem, profile: MachineProfile, options: PlanOptions
) -> tuple[KernelSpec, ...]:
    """The kernels that may compute a product; empty if only the CPU can.

    A product that can take the straight path is left to cuBLAS, which knows small shapes: it takes
    25 µs for 37x46x6098 on an H200, the fastest of ours 145. Otherwise, if the rate of any kernel
    was measured, those whose rates are only assumed are left out.

    Raises:
        PlanError: The product cannot have this kernel, tile, accuracy or number of multiprocessors
            on this machine.
    """
    _check_accuracy(problem, options)
    specs, gpu = _find_accurate(problem, options), profile.gpu
    if gpu is None:
        if options.sms is not None:
            raise PlanError("sms", options.sms, "left out: there is no GPU")
        return ()
    specs = [spec for spec in specs if spec.runs_on(gpu.compute_capability)]
    if options.kernel != "auto" and not specs:
        known = list_kernels(dtype=problem.dtype, compute_capability=gpu.compute_capability)
        limit = f"one that {profile.device} runs in {problem.dtype}: auto, {_name(known)}"
        raise PlanError("kernel", options.kernel, limit)
    if options.sms is not None:
        specs = _find_limited(problem, profile, options, options.sms, specs)
    elif options.kernel == "auto" and can_go_straight(problem, profile):
        specs = [spec for spec in specs if spec.is_cublas] or specs
    return tuple(spec for spec in specs if profile.find_measured(spec)) or tuple(specs)


def find_positions(profile: MachineProfile, devices: str | None) -> tuple[int, ...]:
    """The GPUs that may compute: their positions in the machine's profile.

    The one with the highest peak in float32 is first; another one may be faster at a product.

    Args:
        profile: The machine.
        devices: "none", or CUDA's indices such as "0,1"; None for all.

    Raises:
        PlanError: A GPU of that index is not there.
    """
    check_devices(devices)
    gpus = profile.gpus
    indices = {gpu.index for gpu in gpus}
    wanted = indices
    if devices is not None:
        wanted = {int(index) for index in re.findall(r"\d+", devices)}
    if not wanted <= indices:
        here = ", ".join(map(str, sorted(indices)))
        limit = f'"none", or indices among {here}' if here else '"none": there is no GPU'
        raise PlanError("devices", devices, limit)
    found = [position for position, gpu in enumerate(gpus) if gpu.index in wanted]
    return tuple(sorted(found, key=lambda position: -gpus[position].sheet.float32_gflops))


def check_residence(problem: GemmProblem, gpus: Iterable[MachineProfile]) -> None:
    """Refuse a resident B that would leave too little GPU memory for buffers.

    Raises:
        PlanError: B is too large to stay.
    """
    for profile in gpus:
        most_bytes = int(MOST_RESIDENT_SHARE * profile.sheet.memory_bytes)
        if problem.b_bytes > most_bytes:
            limit = f"false: B has {problem.b_bytes} bytes, and {most_bytes} are the most that stay"
            raise PlanError("resident", True, limit)


def explain_no_kernel(problem: GemmProblem, profile: MachineProfile, options: PlanOptions) -> str:
    """Why there is no candidate."""
    if profile.gpu is None:
        reason = 'devices is "none"' if options.devices == "none" else "there is no GPU"
    elif not list_kernels(dtype=problem.dtype):
        reason = f"no kernel multiplies {problem.dtype}"
    else:
        accuracy = options.accuracy or DEFAULT_ACCURACY
        reason = f"no kernel of accuracy {accuracy} multiplies {problem.dtype} on {profile.device}"
    return f"{reason}, so the CPU computes every row"


def _check_accuracy(problem: GemmProblem, options: PlanOptions) -> None:
    """Refuse an unknown accuracy, and one for another element type."""
    accuracy = options.accuracy
    if accuracy is None:
        return
    find_accuracy(accuracy)
    if accuracy in ("strict", "library", problem.dtype):
        return
    choices = ["strict", "library"] + [problem.dtype] * (problem.dtype in ACCURACIES)
    limit = f"one of {', '.join(choices)} for a product in {problem.dtype}"
    meaning = f"errors no larger than those of sums in {accuracy}"
    raise PlanError("accuracy", accuracy, f"{limit}: {accuracy} means {meaning}")


def _find_accurate(problem: GemmProblem, options: PlanOptions) -> list[KernelSpec]:
    """The kernels of the element type and accuracy: those of the requested name, or all."""
    allowed = _ACCURACIES_THAT_MEET[options.accuracy or DEFAULT_ACCURACY]
    fitting = [spec for spec in list_kernels(dtype=problem.dtype) if spec.accuracy in allowed]
    if options.kernel == "auto":
        if options.tile is not None:
            raise PlanError("tile", options.tile, 'left out while kernel is "auto"')
        return [spec for spec in fitting if spec.automatic and problem.k >= spec.least_k]
    named = _find_named(problem, options)
    accurate = [spec for spec in named if options.accuracy is None or spec.accuracy in allowed]
    if not accurate:
        limit = f"auto, or of accuracy {options.accuracy} in {problem.dtype}: {_name(fitting)}"
        raise PlanError("kernel", options.kernel, limit)
    return accurate


def _find_named(problem: GemmProblem, options: PlanOptions) -> list[KernelSpec]:
    """The kernels of the requested name and element type; a single one if the tile is named."""
    kernel, tile = options.kernel, options.tile
    named = [spec for spec in list_kernels() if spec.name == kernel]
    if not named:
        raise PlanError("kernel", kernel, f"one of auto, {_name(list_kernels())}")
    if tile is not None:
        try:
            return [find_kernel(kernel, problem.dtype, tile)]
        except UnknownKernel as error:
            raise PlanError(error.field, error.value, error.limit) from error
    specs = [spec for spec in named if spec.dtype == problem.dtype]
    if not specs:
        has = ", ".join(sorted({spec.dtype for spec in named}))
        raise PlanError("kernel", kernel, f"one that multiplies {problem.dtype}; it has {has}")
    return specs


def _find_limited(
    problem: GemmProblem,
    profile: MachineProfile,
    options: PlanOptions,
    sms: int,
    specs: list[KernelSpec],
) -> list[KernelSpec]:
    """The candidates that can be limited to the requested number of multiprocessors."""
    count = profile.sheet.sm_count
    able = [spec for spec in specs if spec.can_limit_sms]
    held = [spec for spec in able if spec.count_usable_sms(sms, count)]
    if not 1 <= sms <= count:
        limit = f"1…{count}, the multiprocessors of {profile.device}"
    elif held:
        return held
    elif able:
        limit = f"{min(spec.sms_quantum for spec in able)}…{count} with {_name(able)}"
    elif not specs:
        limit = f"left out: {explain_no_kernel(problem, profile, options)}"
    else:
        others = _name(spec for spec in list_kernels(dtype=problem.dtype) if spec.can_limit_sms)
        limit = f"left out with {_name(specs)}; {others} can be limited to some multiprocessors"
    raise PlanError("sms", sms, limit)


def _name(specs: Iterable[KernelSpec]) -> str:
    return ", ".join(sorted({spec.name for spec in specs}))
