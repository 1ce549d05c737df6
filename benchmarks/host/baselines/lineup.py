"""Which baselines run on this machine."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.baselines.cublas_xt import CublasXt, can_share_with_cpu
from benchmarks.host.baselines.executor import Learner, RelayedExecutor, SplitExecutor
from benchmarks.host.baselines.libraries import PlainCupy, PlainNumpy, PyTorch
from benchmarks.host.baselines.several_cupy import SeveralCupy
from benchmarks.host.baselines.streamed_cupy import StreamedCupy
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile

OURS: Final = "wavetrim"
PRESET: Final = "wavetrim-preset"
GPU_ALONE: Final = "wavetrim-gpu"
ONE_GPU: Final = "wavetrim-one-gpu"
FEWER: Final = {
    ONE_GPU: 1, "wavetrim-two-gpus": 2, "wavetrim-three-gpus": 3, "wavetrim-four-gpus": 4
}  # fmt: skip
"""With more GPUs than so many: the first of them and the CPU."""

RELAYED: Final = "wavetrim-relayed"
"""The same, with the links of the other GPUs, where a plan uses them."""

OTHERS: Final = ("cupy", "cupy-streams", "torch", "numpy")
"""wavetrim should never be slower than the fastest of these."""

NAMES: Final = (OURS, PRESET, GPU_ALONE, *OTHERS, "cublasxt")
"""All baselines on one GPU."""

SEVERAL_NAMES: Final = (OURS, *FEWER, RELAYED, "cublasxt", "cupy-gpus")
"""All baselines on several GPUs."""

Refuse = Callable[[str, str], None]


def list_names(gpus: int) -> tuple[str, ...]:
    """All baselines on so many GPUs."""
    if gpus < 2:
        return NAMES
    return tuple(name for name in SEVERAL_NAMES if FEWER.get(name, 0) < gpus)


def make_baselines(
    executor: Executor, profile: MachineProfile, names: Sequence[str], refuse: Refuse
) -> list[Baseline]:
    """Baselines of these `NAMES`; `refuse` is called for those that cannot be made, with why."""
    makers: dict[str, Callable[[], Baseline]] = {
        OURS: lambda: SplitExecutor(OURS, executor, add_history(profile)),
        PRESET: lambda: SplitExecutor(
            PRESET, executor, find_preset_profile(executor), learner=Learner()
        ),
        "numpy": PlainNumpy,
    }
    if executor.devices:
        indices = [device.index for device in executor.devices]
        alone, relayed = PlanOptions(f=0), PlanOptions(devices="+".join(map(str, indices)))
        fewer = {
            name: PlanOptions(devices=",".join(map(str, indices[:count])))
            for name, count in FEWER.items()
            if count < len(indices)
        }
        libraries: dict[str, Callable[[], Baseline]] = {
            "cupy": PlainCupy,
            "cupy-streams": StreamedCupy,
            "torch": PyTorch,
        }
        makers |= (
            libraries
            | {
                GPU_ALONE: lambda: SplitExecutor(GPU_ALONE, executor, profile, alone),
                "cublasxt": lambda: _make_cublas_xt(indices, refuse),
                "cupy-gpus": lambda: SeveralCupy(indices),
                RELAYED: lambda: RelayedExecutor(RELAYED, executor, add_history(profile), relayed),
            }
            | {
                name: partial(SplitExecutor, name, executor, add_history(profile), options)
                for name, options in fewer.items()
            }
        )
    baselines: list[Baseline] = []
    for name in names:
        if name not in makers:
            refuse(name, "there is no GPU")
            continue
        try:
            baselines.append(makers[name]())
        except Exception as error:  # the others do not need what this one lacks
            refuse(name, f"{type(error).__name__}: {error}")
    return baselines


def add_history(profile: MachineProfile) -> MachineProfile:
    """The profile as users have it, corrected by runs: here those of this benchmark."""
    history = RunHistory(None, basis="this run", calibrated=profile.measured_at is not None)
    return replace(profile, corrections=history)


def find_preset_profile(executor: Executor) -> MachineProfile:
    """The profile before a machine is calibrated, from data sheets."""
    return find_profile(
        None, devices=executor.devices, directory=None, cpu_threads=executor.pool.threads
    )


def _make_cublas_xt(devices: Sequence[int], refuse: Refuse) -> Baseline:
    shares = can_share_with_cpu(devices)
    if not shares:
        refuse("cublasxt", "takes part without its CPU ratio: products with one fail here")
    return CublasXt(devices, shares_with_cpu=shares)
