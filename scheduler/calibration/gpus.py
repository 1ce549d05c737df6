"""Calibrates every GPU of a machine, one after the other, and then their links together.

Of several GPUs of one model the first is measured, of the others only the links.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.timing.joint_rates import measure_joint_rates, measure_peer_rate
from wavetrim.scheduler.calibration.calibrate import calibrate, calibrate_another
from wavetrim.scheduler.calibration.kernels import Report
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.profile.machine import JointLinks, MachineProfile
from wavetrim.scheduler.profile.presets import describe_gpu

_COPIED_BYTES: Final = 256 << 20
_RUNS: Final = 12
"""Bytes and runs of the copies that are timed; chosen."""


def calibrate_gpus(
    open_executor: Callable[[Sequence[DeviceInfo]], Executor],
    devices: Sequence[DeviceInfo],
    *,
    cache_dir: Path,
    report: Report | None = None,
) -> MachineProfile:
    """Measure this machine with all of these GPUs, each once; nothing is stored.

    Returns:
        The profile of the first GPU, with those of the others beside it.
    """
    found: dict[int, MachineProfile] = {}
    different: list[DeviceInfo | None] = [*dict.fromkeys(devices)] or [None]
    for number, device in enumerate(different):

        def tell(what: str, share: float, number: int = number) -> None:
            if report is not None:
                name = f"{what} of GPU {number}" if len(different) > 1 else what
                report(name, (number + share) / len(different))

        index = device.index if device is not None else 0
        with open_executor([device] if device is not None else []) as executor:
            like = _find_like(device, found.values())
            if like is not None:
                profile = calibrate_another(executor, like, report=tell)
            else:
                profile = calibrate(executor, cache_dir=cache_dir, directory=None, report=tell)
        found[index] = replace(profile, index=index)
    if len(devices) < 2:
        return next(iter(found.values()))
    joint = _measure_joint([device.index for device in devices])
    first, *beside = (replace(found[device.index], joint=joint) for device in devices)
    return replace(first, beside=tuple(beside))


def _find_like(device: DeviceInfo | None, found: Iterable[MachineProfile]) -> MachineProfile | None:
    """The profile of a GPU of the same model; None if none is measured yet."""
    if device is None:
        return None
    gpu = describe_gpu(device)
    return next((profile for profile in found if profile.gpu == gpu), None)


def _measure_joint(indices: Sequence[int]) -> JointLinks:
    """What the links of these GPUs reach together, from page-locked memory."""
    rates = measure_joint_rates(indices, _COPIED_BYTES, _RUNS)
    peer = min(measure_peer_rate(indices[0], other, _COPIED_BYTES, _RUNS) for other in indices[1:])
    return JointLinks(
        in_gbytes_per_second=rates.in_bytes_per_second / 1e9,
        out_gbytes_per_second=rates.out_bytes_per_second / 1e9,
        both_gbytes_per_second=rates.both_bytes_per_second / 1e9,
        peer_gbytes_per_second=peer / 1e9,
        source="measured with all of these GPUs",
    )
