"""Right products pass their check; changes that rounding does not explain are caught."""

import numpy as np
import pytest

from benchmarks import verify
from tests.matrices import FLOATS, make_matrix
from tests.scheduler.check.damage import DAMAGES, TYPES
from wavetrim.native.element_types import find_accumulator
from wavetrim.scheduler.check.verify import verify_product


@pytest.mark.parametrize("dtype", TYPES)
def test_hardly_any_damage_passes(dtype, monkeypatch):
    """The benchmark counts it in thousands of products."""
    monkeypatch.setattr(verify, "SIZES", (64, 200))
    rows = list(verify.count_missed(dtype, 8))
    assert [(row["change"], row["tries"]) for row in rows] == [(name, 8) for name in DAMAGES]
    assert sum(row["missed"] for row in rows) <= 2, rows


@pytest.mark.parametrize("dtype", TYPES)
def test_right_products_of_special_values_pass(dtype):
    assert verify.count_false_alarms(dtype, 40)["false_alarms"] == 0


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
