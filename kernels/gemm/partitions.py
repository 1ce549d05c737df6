"""Streams limited to some of a GPU's multiprocessors, by CUDA's green contexts.

A green context has a partition of the multiprocessors. Memory, modules and events remain those of
the ordinary context; only the stream differs.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wavetrim.kernels.errors import DeviceFailure, DeviceUnavailable, OperandError


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of the multiprocessors and its stream.

    Attributes:
        sms: Number of multiprocessors.
        pointer: Address of the stream.
    """

    sms: int
    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version 0 of CUDA's stream protocol, and the address."""
        return 0, self.pointer


_streams: dict[tuple[int, int], tuple[int, Any]] = {}
_making = threading.Lock()


@contextmanager
def hold_stream(sms: int, quantum: int) -> Iterator[int]:
    """Make a stream current whose kernels run on at most `sms` multiprocessors.

    The new stream waits for the work on the current one, and later work there waits for it.

    Args:
        sms: Largest number of multiprocessors.
        quantum: Granularity of their number; at most `sms`.

    Yields:
        The number of multiprocessors granted: the most that the driver can partition.

    Raises:
        OperandError: The driver makes no partition that small.
        DeviceUnavailable: The driver has no green contexts.
        DeviceFailure: CUDA refuses the partition.
    """
    from cupy.cuda import Event, get_current_stream

    granted, stream = find_stream(sms, quantum)
    caller = get_current_stream()
    stream.wait_event(caller.record(Event(disable_timing=True)))
    try:
        with stream:
            yield granted
    finally:
        caller.wait_event(stream.record(Event(disable_timing=True)))


def find_stream(sms: int, quantum: int) -> tuple[int, Any]:
    """Size and stream of a partition of the current device, created on first use.

    Arguments and errors are those of `hold_stream`.
    """
    from cupy.cuda import Device, Stream

    key = Device().id, sms - sms % quantum
    with _making:
        if key not in _streams:
            partition = _make_partition(key[0], sms, quantum)
            _streams[key] = partition.sms, Stream.from_external(partition)
        return _streams[key]


def _make_partition(device_index: int, sms: int, quantum: int) -> Partition:
    """Create a partition, which stays until the process ends."""
    from cuda.bindings import driver

    try:
        device = _call(driver.cuDeviceGet, device_index)
        resource = _choose_resource(device, sms, quantum)
        descriptor = _call(driver.cuDevResourceGenerateDesc, [resource], 1)
        with_stream = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = _call(driver.cuGreenCtxCreate, descriptor, device, with_stream)
        apart = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = _call(driver.cuGreenCtxStreamCreate, context, apart, 0)
    except RuntimeError as error:  # the bindings raise it where the driver lacks a function
        message = f"sms is {sms}; drivers limit a stream to that from CUDA 12.5 on: {error}"
        raise DeviceUnavailable(message) from error
    return Partition(int(resource.sm.smCount), int(stream))


def _choose_resource(device: Any, sms: int, quantum: int) -> Any:
    """The largest partition of at most `sms` multiprocessors.

    Partitions almost as large as the GPU may not exist, because some GPUs' clusters lack
    multiprocessors. Then smaller ones are tried.
    """
    from cuda.bindings import driver

    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = _call(driver.cuDeviceGetDevResource, device, kind)
    for count in range(sms - sms % quantum, 0, -quantum):
        status, groups, found, _ = driver.cuDevSmResourceSplitByCount(1, whole, 0, count)
        if status == driver.CUresult.CUDA_SUCCESS and found and groups[0].sm.smCount <= sms:
            return groups[0]
    least = whole.sm.minSmPartitionSize
    raise OperandError(f"sms is {sms}; the driver limits a stream to {least} or more of this GPU")


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the driver; its status becomes an exception."""
    from cuda.bindings import driver

    status, result = function(*arguments)
    if status == driver.CUresult.CUDA_ERROR_NOT_SUPPORTED:
        raise DeviceUnavailable(
            f"streams of this GPU cannot be limited to some multiprocessors: {status.name}"
        )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceFailure(f"{function.__name__}: {status.name}")
    return result
