"""Rates of kernels that move global memory, by the access pattern of neighbouring threads."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from wavetrim.kernels.gemm.operands import DeviceArray
from wavetrim.kernels.timing.readings import MemoryReading
from wavetrim.lab.gpu.catalog import (
    LOADS,
    OFFSET_COPY,
    PITCHED_COPY,
    STRIDED_COPY,
    TRANSPOSES,
    VECTOR_COPIES,
)
from wavetrim.lab.gpu.stopwatch import Stopwatch

COPY_ELEMENTS: Final = 16_776_960
"""Elements of the reference's copies: 65535 blocks of 256."""

LOAD_WAYS: Final = ("cached", "non-cached", "read-only", "texture")
"""Kinds of loads in loads.cu, in the order of its entries."""

_THREADS: Final = 256
_TILE: Final = 32
_ITEM_BYTES: Final = 4
_MOST_TEXELS: Final = 2**27
_MOST_GRID_ROWS: Final = 65535
_VALUES: Final = 1024  # elements are 0…1023, so that sums of taps are exact


def measure_strided_copies(
    watch: Stopwatch, elements: int, strides: Sequence[int], launches: int
) -> tuple[MemoryReading, ...]:
    """Time out[i·stride] = in[i·stride] for `elements` elements of float32.

    Args:
        watch: Times launches on the GPU.
        elements: Number of copied elements, for every stride.
        strides: Strides, at least 1; `elements · stride` elements are allocated twice.
        launches: Timed launches of each stride.
    """
    with watch.use_device():
        (copy,) = watch.load(STRIDED_COPY)
        source, target = _allocate_pair(elements * max(strides))
        readings = []
        for stride in strides:
            target.fill(np.nan)
            arguments = (*_point(target, source), np.int64(elements), np.int64(stride))
            seconds = watch.time_launches(partial(_launch, copy, elements, arguments), launches)
            copied = target[: elements * stride : stride]
            right = _holds(copied, expect_elements(elements, stride, 0))
            moved = 2 * _ITEM_BYTES * elements
            readings.append(MemoryReading("copy", stride, moved, seconds, right))
    return tuple(readings)


def measure_offset_copies(
    watch: Stopwatch, elements: int, offsets: Sequence[int], launches: int
) -> tuple[MemoryReading, ...]:
    """Time out[i + offset] = in[i + offset] for `elements` elements of float32.

    Arguments and errors are those of `measure_strided_copies`.
    """
    with watch.use_device():
        (copy,) = watch.load(OFFSET_COPY)
        source, target = _allocate_pair(elements + max(offsets))
        readings = []
        for offset in offsets:
            target.fill(np.nan)
            arguments = (*_point(target, source), np.int64(elements), np.int64(offset))
            seconds = watch.time_launches(partial(_launch, copy, elements, arguments), launches)
            copied = target[offset : offset + elements]
            moved = 2 * _ITEM_BYTES * elements
            right = _holds(copied, expect_elements(elements, 1, offset))
            readings.append(MemoryReading("copy", offset, moved, seconds, right))
    return tuple(readings)


def measure_vector_copies(
    watch: Stopwatch, elements: int, launches: int
) -> tuple[MemoryReading, ...]:
    """Time out[i] = in[i] for `elements` elements of float32, with loads of 1, 2 and 4 elements.

    Args:
        watch: Times launches on the GPU.
        elements: Number of copied elements, a multiple of 4.
        launches: Timed launches of each.

    Returns:
        Readings "1 load" and "4 loads", the loads of a thread before its first store; their step is
        the size of a load in bytes.
    """
    expected = expect_elements(elements, 1, 0)
    with watch.use_device():
        source, target = _allocate_pair(elements)
        readings = []
        for loads, spec in VECTOR_COPIES.items():
            for width, copy in zip((1, 2, 4), watch.load(spec), strict=True):
                target.fill(np.nan)
                count = elements // width
                arguments = (*_point(target, source), np.int64(count))
                threads = -(-count // loads)
                seconds = watch.time_launches(partial(_launch, copy, threads, arguments), launches)
                way = "1 load" if loads == 1 else f"{loads} loads"
                moved = 2 * _ITEM_BYTES * elements
                right = _holds(target, expected)
                readings.append(MemoryReading(way, _ITEM_BYTES * width, moved, seconds, right))
    return tuple(readings)


def measure_pitched_copies(
    watch: Stopwatch, elements: int, widths: Sequence[int], launches: int
) -> tuple[MemoryReading, ...]:
    """Time copies of matrices of about `elements` elements, without and with padded rows.

    Args:
        watch: Times launches on the GPU.
        elements: Elements of each matrix, rounded down to whole rows.
        widths: Columns, at most `elements`.
        launches: Timed launches of each.

    Returns:
        For each width one reading "tight", and one "pitched" with rows at multiples of 512 bytes,
        as by cudaMallocPitch.
    """
    with watch.use_device():
        (copy,) = watch.load(PITCHED_COPY)
        readings = []
        for width in widths:
            rows = elements // width
            for way, pitch in (("tight", width), ("pitched", -(-width // 128) * 128)):
                source, target = _allocate_pair(rows * pitch)
                target.fill(np.nan)
                sizes = np.int64(rows), np.int32(width), np.int64(pitch)
                arguments = (*_point(target, source), *sizes)
                grid = -(-width // _THREADS), min(rows, _MOST_GRID_ROWS)
                seconds = watch.time_launches(partial(copy, grid, (_THREADS,), arguments), launches)
                shape = rows, pitch
                expected = expect_elements(rows * pitch, 1, 0).reshape(shape)[:, :width]
                right = _holds(target.reshape(shape)[:, :width], expected)
                moved = 2 * _ITEM_BYTES * rows * width
                readings.append(MemoryReading(way, width, moved, seconds, right))
    return tuple(readings)


def measure_loads(
    watch: Stopwatch, elements: int, cases: Sequence[tuple[int, int, int]], launches: int
) -> tuple[tuple[MemoryReading, ...], ...]:
    """Time out[i] = Σ in[i·stride + offset + t] over the taps t, for each of `LOAD_WAYS`.

    Args:
        watch: Times launches on the GPU.
        elements: Elements of out.
        cases: Triples (stride, offset, taps). Cases that read more than the 2^27 elements of a
            texture have no reading "texture".
        launches: Timed launches of each.

    Returns:
        The readings of each case; their step is the index of the case.
    """
    reach = max((elements - 1) * stride + offset + taps for stride, offset, taps in cases)
    with watch.use_device():
        functions = dict(zip(LOAD_WAYS, watch.load(LOADS), strict=True))
        source, target = _allocate_pair(reach, elements)
        texture = _bind_texture(source[:_MOST_TEXELS])
        found = []
        for index, (stride, offset, taps) in enumerate(cases):
            numbers = np.int64(elements), np.int64(stride), np.int64(offset), np.int32(taps)
            expected = sum(expect_elements(elements, stride, offset + tap) for tap in range(taps))
            fits = (elements - 1) * stride + offset + taps <= _MOST_TEXELS
            moved = _ITEM_BYTES * elements * (taps + 1)
            readings = []
            for way in LOAD_WAYS if fits else LOAD_WAYS[:-1]:
                target.fill(np.nan)
                end = np.uint64(texture.ptr if way == "texture" else source.data.ptr)
                arguments = (np.uint64(target.data.ptr), end, *numbers)
                seconds = watch.time_launches(
                    partial(_launch, functions[way], elements, arguments), launches
                )
                right = _holds(target, expected)
                readings.append(MemoryReading(way, index, moved, seconds, right))
            found.append(tuple(readings))
    return tuple(found)


def measure_transposes(
    watch: Stopwatch, rows: int, columns: int, launches: int
) -> tuple[MemoryReading, ...]:
    """Time the three transposes of a float32 matrix, and a plain copy of it.

    Returns:
        Readings "copy", "naive", "shared" and "padded"; their step is `columns`.
    """
    elements, moved = rows * columns, 2 * _ITEM_BYTES * rows * columns
    with watch.use_device():
        (copy,) = watch.load(STRIDED_COPY)
        source, target = _allocate_pair(elements)
        target.fill(np.nan)
        arguments = (*_point(target, source), np.int64(elements), np.int64(1))
        seconds = watch.time_launches(partial(_launch, copy, elements, arguments), launches)
        matrix = expect_elements(elements, 1, 0).reshape(rows, columns)
        right = _holds(target.reshape(rows, columns), matrix)
        readings = [MemoryReading("copy", columns, moved, seconds, right)]
        sizes = (*_point(target, source), np.int64(rows), np.int64(columns))
        grid = -(-columns // _TILE), -(-rows // _TILE)
        for name, spec in TRANSPOSES.items():
            (transpose,) = watch.load(spec)
            target.fill(np.nan)
            seconds = watch.time_launches(partial(transpose, grid, (_TILE, _TILE), sizes), launches)
            right = _holds(target.reshape(columns, rows).T, matrix)
            readings.append(MemoryReading(name, columns, moved, seconds, right))
    return tuple(readings)


def _allocate_pair(elements: int, target_elements: int | None = None) -> tuple[Any, Any]:
    """A source that repeats 0…1023, and a target, on the device."""
    import cupy

    rows = cupy.empty((-(-elements // _VALUES), _VALUES), np.float32)
    rows[...] = cupy.asarray(np.arange(_VALUES, dtype=np.float32))
    return rows.reshape(-1)[:elements], cupy.empty(target_elements or elements, np.float32)


def _point(*arrays: DeviceArray) -> tuple[np.uint64, ...]:
    """Addresses of arrays, as arguments of a kernel."""
    return tuple(np.uint64(array.data.ptr) for array in arrays)


def _launch(function: Any, elements: int, arguments: tuple[Any, ...]) -> None:
    """Launch one thread for each element."""
    function((-(-elements // _THREADS),), (_THREADS,), arguments)


def _holds(found: DeviceArray, expected: Any) -> bool:
    """Whether all elements equal the expected ones; NaN never does."""
    import cupy

    return bool((cupy.asnumpy(found) == expected).all())


def expect_elements(elements: int, stride: int, offset: int) -> Any:
    """The elements offset, offset + stride, … of a source that repeats 0…1023."""
    period = (np.arange(_VALUES) * stride + offset) % _VALUES
    return np.resize(period.astype(np.float32), elements)


def _bind_texture(source: DeviceArray) -> Any:
    """A one-dimensional texture over a device array, which it keeps alive."""
    from cupy.cuda import runtime
    from cupy.cuda.texture import (
        ChannelFormatDescriptor,
        ResourceDescriptor,
        TextureDescriptor,
        TextureObject,
    )

    channel = ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    resource = ResourceDescriptor(
        runtime.cudaResourceTypeLinear, arr=source, chDesc=channel, sizeInBytes=source.nbytes
    )
    return TextureObject(resource, TextureDescriptor(readMode=runtime.cudaReadModeElementType))
