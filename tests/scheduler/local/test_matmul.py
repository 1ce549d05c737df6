"""`wavetrim.matmul` is `numpy.matmul`, for every shape, stride and element type that it takes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wavetrim
from tests.foreign_arrays import ByDlpack
from tests.matrices import draw_array, make_matrix, tolerance
from wavetrim.native.element_types import is_integer
from wavetrim.scheduler.errors import FieldError, VerificationFailed
from wavetrim.scheduler.problem import ITEM_BYTES

LARGE = (230, 190, 410)
"""M, N, K of a product that threads share."""


def assert_equals_numpy(actual, a, b):
    """NumPy's shape and type; integers are exact, floats within the error of K additions."""
    expected = np.matmul(a, b)
    dtype = np.result_type(np.asarray(a), np.asarray(b))
    expected = expected.astype(dtype)  # of bfloat16 it is float32
    assert type(actual) is type(expected)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if is_integer(actual.dtype):
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    exact = np.matmul(np.asarray(a, wide), np.asarray(b, wide))
    scale = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    limit = tolerance(actual.dtype, np.shape(a)[-1])
    assert np.all(np.abs(actual.astype(wide) - exact) <= limit * scale + 1e-7)


SIDES = st.integers(0, 40)


@st.composite
def shape_pairs(draw):
    """Two shapes that can be multiplied: vectors, matrices, stacks that broadcast."""
    m, n, k = draw(SIDES), draw(SIDES), draw(SIDES)
    stack = draw(st.lists(st.integers(0, 3), max_size=2))
    a_stack, b_stack = ([draw(st.sampled_from([x, 1])) for x in stack] for _ in range(2))
    a_stack = a_stack[draw(st.integers(0, len(stack))) :]
    a = draw(st.sampled_from([(*a_stack, m, k), (m, k), (k,)]))
    b = draw(st.sampled_from([(*b_stack, k, n), (k, n), (k,)]))
    return a, b


@st.composite
def strided(draw, shape, dtype, seed):
    """An array of a shape whose axes are reversed, strided, broadcast or exchanged."""
    generator = np.random.default_rng(seed)
    ways = [draw(st.sampled_from(["plain", "back", "step", "still"])) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    base = [
        {"plain": side, "back": side, "step": 3 * side, "still": min(side, 1)}[way]
        for side, way in zip(shape, ways, strict=True)
    ]
    array = draw_array(generator, tuple(base[axis] for axis in order), dtype)
    array = array.transpose(np.argsort(order))
    for axis, (side, way) in enumerate(zip(shape, ways, strict=True)):
        index = {"back": slice(None, None, -1), "step": slice(None, None, 3)}.get(way, slice(None))
        array = array[(*[slice(None)] * axis, index)]
        if way == "still":
            array = np.broadcast_to(array, (*array.shape[:axis], side, *array.shape[axis + 1 :]))
    assert array.shape == shape
    swapped = dtype != "bfloat16" and draw(st.booleans())
    return array.astype(array.dtype.newbyteorder()) if swapped else array


@settings(max_examples=150)
@given(st.data(), shape_pairs(), st.sampled_from(list(ITEM_BYTES)), st.integers(0, 99))
def test_products_equal_those_of_numpy(data, shapes, dtype, seed):
    mixed = data.draw(st.booleans())
    other = data.draw(st.sampled_from(list(ITEM_BYTES))) if mixed else dtype
    a = data.draw(strided(shapes[0], dtype, seed))
    b = data.draw(strided(shapes[1], other, seed + 1))
    if mixed:
        a, b = (np.clip(x, 0, 9) if is_integer(x.dtype) else x for x in (a, b))
        try:
            np.result_type(a, b)
        except TypeError:  # of bfloat16 and most others
            with pytest.raises(FieldError, match="dtype is"):
                wavetrim.matmul(a, b)
            return
    assert_equals_numpy(wavetrim.matmul(a, b), a, b)


@settings(max_examples=80)
@given(
    st.data(), shape_pairs(),
    st.sampled_from(["float32", "float64", "complex64", "int16", "uint64"]),
    st.integers(-3, 3), st.integers(-3, 3),
)  # fmt: skip
def test_factors_and_c_broadcast_and_wrap_as_in_numpy(data, shapes, dtype, alpha, beta):
    generator = np.random.default_rng(1)
    a, b = (draw_array(generator, shape, dtype) for shape in shapes)
    product = np.matmul(a, b)
    shape = tuple(data.draw(st.sampled_from([side, 1])) for side in product.shape)
    shape = shape[data.draw(st.integers(0, len(shape))) :]
    c = draw_array(generator, shape, dtype)
    found = wavetrim.matmul(a, b, alpha=alpha, beta=beta, c=c)
    with np.errstate(over="ignore"):
        factors = [np.asarray(factor).astype(dtype) for factor in (alpha, beta)]
        expected = factors[0] * product + np.broadcast_to(factors[1] * c, product.shape)
    assert found.dtype == dtype
    if is_integer(np.dtype(dtype)):
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [name for name in ITEM_BYTES if name != "float16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_that_threads_share_are_right(dtype, order):
    m, n, k = LARGE
    a = make_matrix(m, k, dtype, 1, order=order)
    b = make_matrix(k, n, dtype, 2, leading_dimension=n + 7)
    assert_equals_numpy(wavetrim.matmul(a, b), a, b)


def test_lists_and_arrays_of_other_libraries_are_taken_as_arrays(tmp_path):
    assert_equals_numpy(wavetrim.matmul([[1, 2], [3, 4]], [5.0, 6.0]), [[1, 2], [3, 4]], [5.0, 6.0])
    assert_equals_numpy(wavetrim.matmul([], []), [], [])
    a = make_matrix(300, 200, "float32", 1)
    assert_equals_numpy(wavetrim.matmul(ByDlpack(a), memoryview(a.T.copy())), a, a.T)
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=a.shape)
    mapped[:] = a
    assert_equals_numpy(wavetrim.matmul(mapped, mapped.T), a, a.T)
    bare = a.view(type("Bare", (np.ndarray,), {}))
    assert_equals_numpy(wavetrim.matmul(bare, bare.T), a, a.T)


def test_types_are_promoted_as_numpy_does():
    for left in ITEM_BYTES:
        for right in ITEM_BYTES:
            a, b = np.ones((2, 3), left), np.ones((3, 2), right)
            try:
                dtype = np.result_type(a, b)
            except TypeError:
                assert "bfloat16" in (left, right)
            else:
                assert wavetrim.matmul(a, b).dtype == dtype, (left, right)
    assert wavetrim.matmul(np.ones((2, 2), bool), np.ones((2, 2), "float32")).dtype == "float32"
    a = np.ones((2, 2), "float32")
    assert wavetrim.matmul(a, a, beta=1.0, c=1.5).dtype == "float32"
    assert wavetrim.matmul(a, a, beta=1.0, c=np.float64(1.5)).dtype == "float64"


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_a_number_as_c_has_the_products_type_unless_it_is_of_a_wider_kind(dtype):
    a = np.ones((2, 3), dtype)
    for c in (3, True, 3.0, 1.5, 3j):
        found = wavetrim.matmul(a, a.T, beta=2, c=c)
        assert (found == 3 + 2 * c).all()
        if isinstance(c, complex) or (isinstance(c, float) and is_integer(a.dtype)):
            assert found.dtype == (a + c).dtype
        else:
            assert found.dtype == dtype
    assert (wavetrim.matmul(a, a.T, beta=0, c=10**400) == 3).all(), "it is not read"


def test_unaligned_operands_are_multiplied():
    buffer = np.zeros(8 * 12 + 1, np.uint8)
    a = buffer[1:].view(np.float64).reshape(3, 4)
    a[...] = np.arange(12).reshape(3, 4)
    out = np.zeros(8 * 9 + 1, np.uint8)[1:].view(np.float64).reshape(3, 3)
    assert not a.flags.aligned
    wavetrim.matmul(a, a.T, out=out)
    np.testing.assert_array_equal(out, a @ a.T)


@pytest.mark.parametrize("m", [8, 300])
@pytest.mark.parametrize("view", ["whole", "transposed", "stepped", "backwards", "columns"])
def test_only_out_is_written(m, view):
    k = 400
    a, b = make_matrix(m, k, "float32", 1), make_matrix(k, m, "float32", 2)
    whole = np.full((2 * m, 2 * m), 7, np.float32)
    taken = {
        "whole": whole[:m, :m],
        "transposed": whole[:m, :m].T,
        "stepped": whole[::2, ::2],
        "backwards": whole[m - 1 :: -1, :m],
        "columns": whole[:m, m:],
    }[view]
    assert wavetrim.matmul(a, b, out=taken) is taken
    assert_equals_numpy(taken.copy(), a, b)
    taken[...] = 7
    assert (whole == 7).all()


@pytest.mark.parametrize("m", [20, 300])
def test_out_may_share_memory_with_any_operand(m):
    x, y = make_matrix(m, m, "float64", 1), make_matrix(m, m, "float64", 2)
    expected = 2 * (x @ y) + 3 * x
    for name in ("a", "b", "c", "transposed", "shifted"):
        store = np.zeros((m + 1, m + 1))
        out = store[:m, :m]
        at = {"transposed": out.T, "shifted": store[1:, 1:]}.get(name, out)
        a, b, c = x, y, x.copy()
        if name in ("a", "transposed"):
            at[...], a = a, at
        elif name in ("b", "shifted"):
            at[...], b = b, at
        else:
            at[...], c = c, at
        found = wavetrim.matmul(a, b, alpha=2.0, beta=3.0, c=c, out=out)
        assert found is out
        np.testing.assert_allclose(out, expected, err_msg=name)


@pytest.mark.parametrize("m", [3, 400])
def test_a_factor_of_integers_may_be_longer_than_any_float(m):
    ones = np.ones((m, m), np.int64)
    np.testing.assert_array_equal(wavetrim.matmul(ones, ones, alpha=2**2000 + 3), 3 * m * ones)


@pytest.mark.parametrize("zero", [0.0, 1e-300])
@pytest.mark.parametrize("m", [3, 600])
def test_a_factor_that_is_0_in_the_products_type_reads_nothing(m, zero):
    """With β = 0 C is not read, with α = 0 neither A nor B, also by the check."""
    ones = np.ones((m, m), np.float32)
    nan = np.full((m, m), np.nan, np.float32)
    found = wavetrim.matmul(nan, nan, alpha=zero, beta=2.0, c=ones, verify=True)
    np.testing.assert_array_equal(found, 2 * ones)
    found = wavetrim.matmul(ones, ones, beta=zero, c=nan, verify=True)
    np.testing.assert_array_equal(found, m * ones)


def test_infinities_and_nans_pass_through_without_a_warning():
    for m in (3, 300):
        a = np.ones((m, m), np.float32)
        a[0, 0], a[1, 0] = np.inf, np.nan
        found = wavetrim.matmul(a, np.eye(m, dtype=np.float32) - 1)
        assert not np.isfinite(found[:2]).any()
        assert np.isfinite(found[2:]).all()


def test_a_wrong_product_does_not_pass(monkeypatch):
    def multiply_wrongly(left, right, out):
        out[...] = left @ right
        out[..., -1] += 1

    monkeypatch.setattr(np, "matmul", multiply_wrongly)
    a = np.ones((5, 20, 20), np.float32)
    assert wavetrim.matmul(a, a)[0, 0, -1] == 21
    with pytest.raises(VerificationFailed, match=r"max_error is .*; it must be at most 1 \(400"):
        wavetrim.matmul(a, a, verify=True)


REFUSALS = {
    "scalar": (3.0, [1.0], {}, "shape of a is (); it must be of at least one dimension"),
    "columns": (np.ones((2, 3)), np.ones((2, 3)), {}, "shape of b is (2, 3); it must be (…, 3, N)"),
    "vector": (np.ones(3), np.ones(2), {}, "shape of b is (2,); it must be (3,), as a has 3"),
    "axes": (
        np.ones((1,) * 40), np.ones((1,) * 40), {},
        "axes of a stack is 38; it must be at most 32",
    ),
    "stacks": (
        np.ones((2, 2, 2)), np.ones((3, 2, 2)), {},
        "shape of b is (3, 2, 2); it must be one whose axes before the last two broadcast with",
    ),
    "no common type": (
        *(np.ones(1, "bfloat16"), np.ones(1, "int32"), {}),
        "dtype is 'bfloat16 and int32'; it must be such that",
    ),
    "bool": ([True], [True], {}, "dtype is 'bool'; it must be such that the product is in float16"),
    "object": (np.array([None]), [1.0], {}, "dtype is 'object and float64'"),
    "text": (np.array(["x"]), [1.0], {}, "dtype is '<U1 and float64'"),
    "beta": ([1.0], [1.0], {"beta": 2.0}, "beta is 2.0; it must be 0 where c is left out"),
    "alpha": ([1.0], [1.0], {"alpha": 1j}, "alpha is 1j; it must be a real number"),
    "whole": ([1], [1], {"alpha": 0.5}, "alpha is 0.5; it must be a whole number for matrices of"),
    "endless": ([1], [1], {"alpha": np.inf}, "alpha is inf; it must be a whole number"),
    "c": ([1.0], [1.0], {"beta": 1.0, "c": [1.0, 2.0]}, "shape of c is (2,); it must be one that"),
    "out": ([1.0], [1.0], {"out": [0.0]}, "out is 'list'; it must be a NumPy array"),
    "out shape": ([1.0], [1.0], {"out": np.zeros(1)}, "shape of out is (1,); it must be ()"),
    "out dtype": (
        [1.0], [1.0], {"out": np.zeros((), "f4")}, "dtype of out is 'float32'; it must be float64"
    ),
    "read-only": (
        [[1.0]], [1.0], {"out": np.broadcast_to(0.0, 1)}, "out is 'read-only'; it must be writable"
    ),
    "f": (np.ones((2, 2)), np.eye(2), {"f": 3}, "f is 3; it must be \"auto\" or 0…2"),
    "f kind": ([1.0], [1.0], {"f": 0.5}, 'f is 0.5; it must be "auto" or a whole number of rows'),
    "f array": ([1.0], [1.0], {"f": np.ones(2)}, 'f is array([1., 1.]); it must be "auto" or'),
    "masked": (np.ma.ones(2), np.ones(2), {}, "a is 'a masked array'; it must be an array without"),
    "masked out": ([1.0], [1.0], {"out": np.ma.ones(())}, "out is 'a masked array'; it must be an"),
    "accuracy": ([1.0], [1.0], {"accuracy": "exact"}, "accuracy is 'exact'; it must be one of"),
    "preset": ([1.0], [1.0], {"device": "T4"}, "device is 'T4'; it must be None, \"cpu\" or"),
    "GPUs of the CPU": (
        np.ones((4, 4)), np.ones((4, 4)), {"device": "cpu", "devices": "0"},
        "devices is '0'; it must be None or \"none\" beside device \"cpu\"",
    ),
}  # fmt: skip

UNHOLDABLE = {
    "uint8": (-1, "a whole number from 0 to 255 for"),
    "int8": (128, "a whole number from -128 to 127 for"),
    "uint64": (2**70, "a whole number from 0 to 18446744073709551615 for"),
    "float16": (1e6, "a real number of at most 65504.0 for"),
    "bfloat16": (1e39, "a real number of at most 3.38953e+38 for"),
}
"""A number that an element type cannot hold, and what it must be."""

REFUSALS |= {
    dtype: (
        *(np.ones((2, 2), dtype), np.eye(2, dtype=dtype), {"beta": 1, "c": c}),
        f"c is {c}; it must be {limit} matrices of {dtype}",
    )
    for dtype, (c, limit) in UNHOLDABLE.items()
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_the_argument_its_value_and_the_limit(name):
    a, b, options, message = REFUSALS[name]
    with pytest.raises(FieldError) as refused:
        wavetrim.matmul(a, b, **options)
    assert message in str(refused.value)
    assert isinstance(refused.value, ValueError)
