"""What `wavetrim.matmul` is given that is no plain array: taken, or refused by its name."""

import numpy as np
import pytest

import wavetrim
from tests.foreign_arrays import GIVEN
from wavetrim.scheduler.errors import FieldError


@pytest.mark.parametrize("given", GIVEN)
def test_a_refusal_names_what_was_given(given):
    value, message = GIVEN[given]
    for name, (a, b, c) in {
        "a": (value, np.eye(2), None),
        "b": (np.eye(2), value, None),
        "c": (np.eye(2), np.eye(2), value),
    }.items():
        if c is None and name == "c":
            continue
        with pytest.raises(FieldError, match=rf"^{name} is ") as refused:
            wavetrim.matmul(a, b, c=c, beta=0.0 if c is None else 1.0)
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)


def test_an_out_with_rules_of_its_own_is_refused():
    out = np.eye(2).view(type("Own", (np.ndarray,), {"__array_ufunc__": lambda *_: None}))
    with pytest.raises(FieldError, match=r"out is .*Own'; it must be a plain array"):
        wavetrim.matmul(np.eye(2), np.eye(2), out=out)


def test_the_error_state_of_numpy_does_not_count():
    large = np.full((300, 300), 1e300)
    with np.errstate(all="raise"):
        assert np.isinf(wavetrim.matmul(large, large)).all()
        assert np.isinf(wavetrim.matmul(large[:2], large)).all()
