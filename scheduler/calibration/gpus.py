"""Calibrates every GPU of a machine, one after the other, and then their links together.

Of several GPUs of one model the first is measured, of the others only the links.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.timing.joint_rates import measure_joint_rates, measure_peer_rate
from wavetrim.scheduler.calibration.calibrate import calibrate, calibrate_another
from wavetrim.scheduler.calibration.contention import measure_split_stretch
from wavetrim.scheduler.calibration.kernels import Report
from wavetrim.scheduler.calibration.latencies import measure_team_calls
from wavetrim.scheduler.calibration.links import PipelineProfile
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.profile.joint import JointLinks
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import describe_gpu

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
    """Measure this machine with all of its GPUs; nothing is stored.

    Args:
        open_executor: Opens an executor with some of the GPUs.
        devices: The GPUs. One that comes twice is measured once.
        cache_dir: Folder of compiled kernels.
        report: Called with what is being measured.

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
    indices = [device.index for device in devices]
    counts = range(2, len(indices) + 1)
    joint = tuple(_measure_joint(indices[:count]) for count in counts)
    peer_rate = min(
        measure_peer_rate(indices[0], other, _COPIED_BYTES, _RUNS) for other in indices[1:]
    )
    gpus = [replace(found[index], peer_gbytes_per_second=peer_rate / 1e9) for index in indices]
    with open_executor(devices) as executor:
        return _join(gpus, _measure_teams(executor, gpus, joint))


def _join(gpus: Sequence[MachineProfile], joint: Iterable[JointLinks]) -> MachineProfile:
    """The profile of a machine with these GPUs and joint rates."""
    joint = tuple(joint)
    first, *beside = (replace(one, joint=joint) for one in gpus)
    return replace(first, beside=tuple(beside))


def _measure_teams(
    executor: Executor, gpus: Sequence[MachineProfile], joint: Sequence[JointLinks]
) -> Iterator[JointLinks]:
    """The joint links with the calls and splits of so many GPUs.

    Where no split pays, its contention is taken from fewer GPUs.
    """
    free = _join(gpus, (replace(links, call_seconds=0.0) for links in joint))
    counts = [links.gpus for links in joint]
    calls = measure_team_calls(PipelineProfile(executor, free), counts)
    called = [
        replace(links, call_seconds=seconds) for links, seconds in zip(joint, calls, strict=True)
    ]
    measured, stretch = PipelineProfile(executor, _join(gpus, called)), 1.0
    for links in called:
        stretch = measure_split_stretch(measured, links.gpus) or stretch
        yield replace(links, split_stretch=stretch)


def _find_like(device: DeviceInfo | None, found: Iterable[MachineProfile]) -> MachineProfile | None:
    """The profile of a GPU of the same model; None if none is measured yet."""
    if device is None:
        return None
    gpu = describe_gpu(device)
    return next((profile for profile in found if profile.gpu == gpu), None)


def _measure_joint(indices: Sequence[int]) -> JointLinks:
    """The links of these GPUs together, from page-locked memory."""
    rates = measure_joint_rates(indices, _COPIED_BYTES, _RUNS)
    return JointLinks(
        memory="pinned",
        gpus=len(indices),
        in_gbytes_per_second=rates.in_bytes_per_second / 1e9,
        out_gbytes_per_second=rates.out_bytes_per_second / 1e9,
        both_gbytes_per_second=rates.both_bytes_per_second / 1e9,
        source="measured with the GPUs",
    )
