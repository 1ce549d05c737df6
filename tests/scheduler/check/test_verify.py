"""Right products pass their check; changes that rounding does not explain are caught."""

import numpy as np
import pytest

from tests.matrices import FLOATS, make_matrix
from tests.scheduler.check.damage import (
    DAMAGES,
    DISTRIBUTIONS,
    TYPES,
    damage,
    draw_product,
    draw_special,
    measure_error,
)
from wavetrim.native.element_types import find_accumulator
from wavetrim.scheduler.check.verify import verify_product


@pytest.mark.parametrize("dtype", TYPES)
def test_hardly_any_damage_passes(dtype):
    random = np.random.default_rng(1)
    sizes = [(size, name) for size in (64, 200) for name in DISTRIBUTIONS]
    products = [draw_product(random, size, dtype, name) for size, name in sizes]
    errors = [measure_error(product, random) for product in products]
    missed = []
    for name in DAMAGES:
        caught = 0
        for drawn in range(400):
            place = drawn % len(products)
            product = products[place]
            out = damage(product, name, errors[place], random)
            if out is None:
                continue
            if verify_product(product.a, product.b, None, out).passed:
                missed.append((name, sizes[place]))
            caught += 1
            if caught == 8:
                break
        assert caught == 8, name
    assert len(missed) <= 2, missed  # of 80; benchmarks/verify counts them in thousands


@pytest.mark.parametrize("dtype", TYPES)
def test_right_products_of_special_values_pass(dtype):
    random = np.random.default_rng(3)
    for _ in range(40):
        product = draw_special(random, dtype)
        outcome = verify_product(
            product.a, product.b, product.c, product.out,
            alpha=product.alpha, beta=product.beta,
        )  # fmt: skip
        assert outcome.passed, (product, outcome)
        assert outcome.elements_checked == product.out.size


@pytest.mark.parametrize("dtype", FLOATS)
def test_right_products_pass_in_any_layout_and_of_equal_elements(dtype):
    random = np.random.default_rng(4)
    a = random.standard_normal((600, 700)).astype(dtype)
    b = random.standard_normal((700, 1400)).astype(dtype)[:, ::2]
    a = np.asfortranarray(a)
    wide = find_accumulator(a.dtype).type
    out = (a.astype(wide) @ b.astype(wide)).astype(dtype)
    assert verify_product(a, b, None, out).passed
    a, b = np.full((300, 2000), 0.1, dtype), np.full((2000, 500), 0.1, dtype)
    terms = np.full(2000, a[0, 0].astype(wide) * b[0, 0].astype(wide), wide)
    for total in (np.add.accumulate(terms)[-1], np.sum(terms)):
        assert verify_product(a, b, None, np.full((300, 500), total, dtype)).passed


def test_wrong_infinities_and_nans_fail():
    random = np.random.default_rng(5)
    a, b = (random.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    a[3, 5] = np.inf
    out = a @ b
    assert verify_product(a, b, None, out).passed
    for row, value in ((4, np.nan), (4, np.inf), (3, 1.0), (3, -out[3, 6]), (3, np.nan)):
        wrong = out.copy()
        wrong[row, 6] = value
        outcome = verify_product(a, b, None, wrong)
        assert (outcome.passed, outcome.wrong_rows) == (False, (row,))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_wrong_part_fails_but_any_infinity_passes_for_another(dtype, order):
    a, b = (make_matrix(*shape, dtype, 5, order=order) for shape in ((300, 200), (200, 90)))
    out = a @ b
    outcome = verify_product(a, b, None, out)
    assert outcome.passed
    assert outcome.elements_checked == out.size
    out[17, 4] = np.conj(out[17, 4])
    assert verify_product(a, b, None, out).wrong_rows == (17,)
    a[3, 5] = np.inf
    with np.errstate(invalid="ignore"):
        out = a @ b
    for value in (out[3, 8], complex(np.nan, np.inf), complex(np.inf, -np.inf)):
        out[3, 8] = value
        assert verify_product(a, b, None, out).passed
    out[3, 8] = 1 + 1j
    assert verify_product(a, b, None, out).wrong_rows == (3,)


def test_a_large_product_with_whole_rows_wrong_fails():
    """No block is compared where all look alike, unless rounding cannot explain their errors."""
    random = np.random.default_rng(8)
    a = random.standard_normal((128, 2304)).astype(np.float32)
    b = random.standard_normal((2304, 4096)).astype(np.float32)
    out = a @ b
    outcome = verify_product(a, b, None, out)
    assert outcome.passed
    assert outcome.elements_compared < out.size / 1000  # one block may differ by chance
    noise = random.standard_normal(out.shape).astype(np.float32) * 48
    for rows in (slice(None), slice(0, 64), slice(96, 128)):  # all, half, and one panel
        for damaged in (np.zeros_like(out), noise):
            unwritten = out.copy()
            unwritten[rows] = damaged[rows]
            assert not verify_product(a, b, None, unwritten).passed, rows


def test_a_verification_says_how_much_was_checked_and_what_is_detectable():
    random = np.random.default_rng(6)
    a, b = (random.standard_normal((1024, 1024)).astype(np.float32) for _ in range(2))
    out = a @ b
    said = verify_product(a, b, None, out).as_dict()
    assert said["elements_checked"] == 1024**2
    assert 0 < said["elements_compared"] < 1024
    assert said["caught_probability"] > 0.99
    out[7, 7] += said["detectable_change"] * np.sqrt(np.mean(out[7] ** 2)) * 2
    assert verify_product(a, b, None, out).wrong_rows == (7,)
