"""Which contenders there are on this machine."""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.executor import SplitExecutor
from benchmarks.contenders.plain_numpy import PlainNumpy
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.machine import MachineProfile

NAMES: Final = (
    *("wavetrim", "wavetrim-gpu", "cupy", "cupy-streams", "torch", "cublasxt", "numpy"),
)
"""Who takes part where nothing else is said, if this machine has what they need."""

Refuse = Callable[[str, str], None]


def make_contenders(
    executor: Executor, profile: MachineProfile, names: Sequence[str], refuse: Refuse
) -> list[Contender]:
    """Contenders of these names; `refuse` is told of those that cannot be made, and why.

    Args:
        executor: This product's.
        profile: What its plans are made from.
        names: Some of `NAMES`.
        refuse: Receives name and reason.
    """
    makers: dict[str, Callable[[], Contender]] = {
        "wavetrim": lambda: SplitExecutor(executor, profile, "both"),
        "numpy": PlainNumpy,
    }
    if executor.devices:
        index = executor.devices[0].index
        makers |= {
            "wavetrim-gpu": lambda: SplitExecutor(executor, profile, "gpu"),
            "cupy": _make_plain_cupy,
            "cupy-streams": _make_streamed_cupy,
            "torch": _make_pytorch,
            "cublasxt": lambda: _make_cublas_xt(index, refuse),
        }
    contenders: list[Contender] = []
    for name in names:
        if name not in makers:
            refuse(name, "there is no GPU")
            continue
        try:
            contenders.append(makers[name]())
        except Exception as error:  # the others do not need what this one lacks
            refuse(name, f"{type(error).__name__}: {error}")
    return contenders


def hold_contenders(executor: Executor, profile: MachineProfile, sms: int) -> list[Contender]:
    """This product with its GPU held to some multiprocessors, beside each device alone."""
    return [
        SplitExecutor(executor, profile, "both", sms),
        SplitExecutor(executor, profile, "gpu", sms),
        SplitExecutor(executor, profile, "cpu", sms),
    ]


def _make_plain_cupy() -> Contender:
    from benchmarks.contenders.plain_cupy import PlainCupy

    return PlainCupy()


def _make_streamed_cupy() -> Contender:
    from benchmarks.contenders.streamed_cupy import StreamedCupy

    return StreamedCupy()


def _make_pytorch() -> Contender:
    from benchmarks.contenders.pytorch import PyTorch

    return PyTorch()


def _make_cublas_xt(device_index: int, refuse: Refuse) -> Contender:
    from benchmarks.contenders.cublas_xt import CublasXt, can_share_with_cpu

    shares = can_share_with_cpu(device_index)
    if not shares:
        refuse("cublasxt", "takes part without its CPU ratio: products with one fail here")
    return CublasXt(device_index, shares_with_cpu=shares)
