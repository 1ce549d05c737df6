"""Products to be verified, and ways to damage them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.products import multiply_block
from wavetrim.native.element_types import find_dtype, find_limits, is_integer
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.scheduler.product import EngineProduct

Array = NDArray[Any]
Random = np.random.Generator
Damage = Callable[[Array, float, Random], None]

TYPES: Final = tuple(ITEM_BYTES)
DISTRIBUTIONS: Final = ("normal", "uniform", "log-normal")

LARGE: Final = 20.0
"""Least change that must be caught, over the largest error of the right product."""

_FACTORS: Final = (0.0, 1.0, -1.0, 2.0, 0.5, -0.37, 3.0, 1e-4, 1e4, 1e-30, 1e30)
_WHOLE_FACTORS: Final = (0, 1, -1, 2, 7, -300, 2**40)
_SAMPLES: Final = 400
_EXPONENTS: Final = {
    "float16": (10, 5),
    "bfloat16": (7, 8),
    "float32": (23, 8),
    "float64": (52, 11),
}
_WARP: Final = 32


def draw_matrix(random: Random, shape: tuple[int, int], dtype: str, distribution: str) -> Array:
    """Random elements; integers from the whole range of their type, whatever the distribution."""
    kind = find_dtype(dtype)
    if kind.kind == "c":
        wide = shape[0], 2 * shape[1]
        return draw_matrix(random, wide, kind.type(0).real.dtype.name, distribution).view(kind)
    if is_integer(kind):
        info = np.iinfo(kind)
        return random.integers(info.min, info.max, shape, kind, endpoint=True)
    if distribution == "uniform":
        return random.random(shape).astype(kind)
    normal = random.standard_normal(shape)
    if distribution == "normal":
        return normal.astype(kind)
    # Over 2^±30 in float32 and float64; float16 has room for 2^±5.
    most = 5 if dtype == "float16" else 30
    signs = random.choice((-1.0, 1.0), shape)
    return (signs * 2 ** np.clip(normal * most / 3, -most, most)).astype(kind)


def multiply(a: Array, b: Array, c: Array, alpha: float, beta: float) -> EngineProduct:
    """The product as the CPU computes it, with the C before it."""
    out = c.copy()
    with np.errstate(all="ignore"):
        # Without A·B, neither A nor B is read.
        left, right = (a, b) if alpha != 0 else (np.zeros_like(a), np.zeros_like(b))
        multiply_block(left, right, out, alpha=alpha, beta=beta)
    return EngineProduct(a, b, c, out, alpha, beta)


def draw_product(random: Random, size: int, dtype: str, distribution: str) -> EngineProduct:
    """A square product A·B."""
    a, b = (draw_matrix(random, (size, size), dtype, distribution) for _ in range(2))
    return multiply(a, b, np.zeros((size, size), dtype), 1, 0)


def measure_error(product: EngineProduct, random: Random) -> float:
    """The largest error of a right product; of float64 among some hundred elements."""
    a, b, out = product.a, product.b, product.out
    if is_integer(out.dtype):
        return 0.0
    if out.dtype not in (np.float64, np.complex128):
        wide = np.complex128 if out.dtype.kind == "c" else np.float64
        return _find_largest(out - a.astype(wide) @ b.astype(wide))
    rows, columns = (random.integers(0, size, _SAMPLES) for size in out.shape)
    longest = np.clongdouble if out.dtype.kind == "c" else np.longdouble
    exact = np.sum(a[rows].astype(longest) * b[:, columns].T.astype(longest), axis=1)
    return _find_largest(out[rows, columns] - exact)


def _find_largest(errors: Array) -> float:
    """The largest error, of either part of complex elements."""
    return float(max(np.max(np.abs(errors.real)), np.max(np.abs(errors.imag))))


def draw_special(random: Random, dtype: str, largest: int = 48) -> EngineProduct:
    """A product of any shape and factors, with infinities, NaNs and extremes of the type."""
    m, n, k = (int(size) for size in np.exp(random.uniform(0, np.log(largest), 3)))
    a, b, c = (_draw_special_matrix(random, s, dtype) for s in ((m, k), (k, n), (m, n)))
    factors = _WHOLE_FACTORS if is_integer(find_dtype(dtype)) else _FACTORS
    alpha, beta = (factors[random.integers(len(factors))] for _ in range(2))
    return multiply(a, b, c, alpha, beta)


def _draw_special_matrix(random: Random, shape: tuple[int, int], dtype: str) -> Array:
    kind = find_dtype(dtype)
    if kind.kind == "c":
        return _draw_special_matrix(
            random, (shape[0], 2 * shape[1]), kind.type(0).real.dtype.name
        ).view(kind)
    matrix = draw_matrix(random, shape, dtype, DISTRIBUTIONS[random.integers(3)])
    if is_integer(kind):
        return matrix
    info = find_limits(kind)
    match random.integers(8):
        case 0:
            largest = np.max(np.abs(matrix))
            matrix = matrix / (largest if largest > 0 else 1) * info.max
        case 1:
            matrix = matrix * info.smallest_subnormal * kind.type(16)
        case 2:
            matrix[...] = matrix[0, 0]
        case 3:
            matrix = np.round(matrix)
        case 4:
            matrix *= np.sqrt(info.max) / kind.type(4)
    if random.random() < 0.3:
        values = np.array((np.inf, -np.inf, np.nan, 0.0, -0.0, info.max, info.tiny), kind)
        count = int(random.integers(1, 4))
        places = tuple(random.integers(0, size, count) for size in shape)
        matrix[places] = random.choice(values, count)
    return matrix


def _draw_place(out: Array, random: Random) -> tuple[int, int]:
    return int(random.integers(out.shape[0])), int(random.integers(out.shape[1]))


def _flip(out: Array, place: tuple[int, int], mask: int) -> None:
    words = out.view(f"u{out.dtype.itemsize}")
    words[place] ^= words.dtype.type(mask)


def _find_bits(out: Array) -> tuple[int, int]:
    """The lowest bit of the exponent and how many it has; of integers, all bits."""
    return (0, out.itemsize * 8) if is_integer(out.dtype) else _EXPONENTS[out.dtype.name]


def _flip_exponent(out: Array, _least: float, random: Random) -> None:
    first, count = _find_bits(out)
    _flip(out, _draw_place(out, random), 1 << int(first + random.integers(count)))


def _flip_mantissa(out: Array, _least: float, random: Random) -> None:
    first, count = _find_bits(out)
    top = first or count
    _flip(out, _draw_place(out, random), 1 << int(top - 1 - random.integers(3)))


def _flip_several(out: Array, _least: float, random: Random) -> None:
    bits = random.choice(out.itemsize * 8, int(random.integers(2, 6)), replace=False)
    _flip(out, _draw_place(out, random), sum(1 << int(bit) for bit in bits))


def _zero_tile(out: Array, _least: float, random: Random) -> None:
    row, column = _draw_place(out, random)
    out[row : row + 16, column : column + 16] = 0


def _swap_columns(out: Array, _least: float, random: Random) -> None:
    first, second = random.choice(out.shape[1], 2, replace=False)
    out[:, [first, second]] = out[:, [second, first]]


def _swap_rows(out: Array, _least: float, random: Random) -> None:
    first, second = random.choice(out.shape[0], 2, replace=False)
    out[[first, second]] = out[[second, first]]


def _shift_row(out: Array, _least: float, random: Random) -> None:
    row = random.integers(out.shape[0])
    out[row] = np.roll(out[row], 1)


def _draw_change(out: Array, least: float, random: Random) -> Any:
    """A change from a little above `least` to 1000 times as large."""
    if is_integer(out.dtype):
        return out.dtype.type(1 << int(random.integers(out.itemsize * 8 - 1)))
    # Stored elements are rounded once more.
    return np.float64(least * 1.1 * 10 ** random.uniform(0, 3))


def _add(out: Array, row: int, columns: Any, change: Any) -> None:
    with np.errstate(all="ignore"):
        if is_integer(out.dtype):
            out[row, columns] += change
        else:
            out[row, columns] = (out[row, columns].astype(np.float64) + change).astype(out.dtype)


def _add_pair(out: Array, least: float, random: Random) -> None:
    row, change = int(random.integers(out.shape[0])), _draw_change(out, least, random)
    first, second = random.choice(out.shape[1], 2, replace=False)
    _add(out, row, first, change)
    with np.errstate(over="ignore"):
        _add(out, row, second, -change)


def _add_at_stride(out: Array, least: float, random: Random) -> None:
    row, change = int(random.integers(out.shape[0])), _draw_change(out, least, random)
    _add(out, row, slice(int(random.integers(_WARP)), None, _WARP), change)


def _repeat_lane(out: Array, _least: float, random: Random) -> None:
    row = int(random.integers(out.shape[0]))
    start = _WARP * int(random.integers(max(1, out.shape[1] // _WARP)))
    lanes = out[row, start : start + _WARP]
    lanes[...] = lanes[random.integers(lanes.size)]


DAMAGES: Final[Mapping[str, Damage]] = {
    "exponent bit": _flip_exponent,
    "high mantissa bit": _flip_mantissa,
    "several bits of a word": _flip_several,
    "zeroed tile": _zero_tile,
    "swapped columns": _swap_columns,
    "swapped rows": _swap_rows,
    "shifted row": _shift_row,
    "+d and -d in a row": _add_pair,
    "equal errors at a warp's stride": _add_at_stride,
    "one lane's value repeated": _repeat_lane,
}
"""Kinds of damage. In integers, which have no exponent: any bit, and one of the highest bits."""


def damage(product: EngineProduct, name: str, error: float, random: Random) -> Array | None:
    """A damaged copy of the product; None if the change is too small to have to be caught."""
    out = product.out.copy()
    parts, before = (matrix.view(out.real.dtype) for matrix in (out, product.out))
    DAMAGES[name](parts, LARGE * error, random)
    with np.errstate(all="ignore"):
        if is_integer(out.dtype):
            return out if (parts != before).any() else None
        change = np.abs(parts.astype(np.float64) - before.astype(np.float64))
        large = ~(change <= LARGE * error)
    return out if large.any() else None
