"""Arguments of calls: refused before anything is sent, or taken as they are."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.foreign_arrays import GIVEN, ByDlpack
from tests.matrices import assert_product, make_matrix

NOBODY = "http://127.0.0.1:1"
MASKED = np.ma.masked_array(np.eye(2), mask=np.eye(2) > 0)
EYE = np.eye(2)


def list_calls(client, value):
    """Calls that are given a value, by the operand's name."""
    return {
        "a": lambda: client.matmul(value, EYE),
        "b": lambda: client.matmul(EYE, value),
        "c": lambda: client.matmul(EYE, EYE, c=value, beta=1.0),
        "array": lambda: client.put(value),
    }


def test_a_masked_array_is_refused_as_its_mask_would_be_lost(connect):
    client = connect(NOBODY)
    calls = [
        *list_calls(client, MASKED).items(),
        ("out", lambda: client.matmul(EYE, EYE, out=MASKED)),
        ("out", lambda: client.get("m", out=MASKED)),
        ("b", lambda: client.submit("m", MASKED)),
    ]
    for name, call in calls:
        message = rf"{name} is a masked array; it must be an array without a mask, such as x\.fill"
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("given", GIVEN)
def test_a_refusal_names_what_was_given(connect, given):
    value, message = GIVEN[given]
    calls = list_calls(connect(NOBODY), value)
    if value is None:
        del calls["c"]
    if isinstance(value, Path):
        del calls["array"]
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{name} is ") as refused:
            call()
        assert message in str(refused.value)


def test_an_array_of_another_library_is_taken_in_host_memory(client):
    a = make_matrix(5, 4, "float64", 1)
    assert_product(client.matmul(ByDlpack(a), a.T), a, a.T)


def test_a_numpy_matrix_is_filled(client):
    a, b = make_matrix(5, 4, "float64", 1), make_matrix(4, 3, "float64", 2)
    product = np.empty((5, 3)).view(np.matrix)
    assert client.matmul(a, b, out=product) is product
    assert_product(np.asarray(product), a, b)
    read = np.empty((5, 4)).view(np.matrix)
    assert client.get(client.put(a), out=read) is read
    np.testing.assert_array_equal(read, a)


@pytest.mark.parametrize("factor", [math.nan, math.inf, -math.inf, 1j, None, "2", np.ones(1)])
def test_a_factor_that_is_no_finite_number_is_refused_before_uploads(connect, factor):
    client = connect(NOBODY)
    for call in (client.matmul, client.submit):
        for name in ("alpha", "beta"):
            with pytest.raises(ValueError, match=f"{name} is .*; it must be a finite real number"):
                call(EYE, EYE, **{name: factor})


def test_an_unknown_option_is_named_with_those_that_there_are(connect):
    client = connect(NOBODY)
    for call in (
        lambda: client.matmul(EYE, EYE, threads=2),
        lambda: client.submit(EYE, EYE, threads=2),
        lambda: client.plan(2, 2, 2, threads=2),
    ):
        with pytest.raises(TypeError, match=r"there is no option 'threads'; there are f, kernel,"):
            call()


def test_a_plan_takes_what_the_machine_might_have(client):
    plan = client.plan(512, 512, 512, device="T4", cpu_threads=64, link_gbytes_per_second=25)
    assert plan["profile"]["cpu"]["threads"] == 64
    asked = {"device": "T4", "cpu_threads": 64}
    faster = client.plan(4096, 4096, 4096, **asked, cpu_gflops=np.float64(10**6))
    assert faster["f"] > client.plan(4096, 4096, 4096, **asked)["f"]
    assert client.plan(64, 8192, 8192, device="H200", resident=True)["resident"]


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), None, "b has 2 rows; it must have 3, as a is (2, 3)"),
        (np.ones(3), np.ones((3, 3)), None, "a has 1 dimensions; it must have 2, or 3 as a stack"),
        ("wide.npy", np.ones((2, 3)), None, "b has 2 rows; it must have 3, as a is (2, 3)"),
        ("wide.npy", "single.npy", None, "the dtypes are float64 of a, float32 of b"),
        (
            np.ones((2, 3)),
            np.ones((3, 4)),
            np.eye(4),
            "c has the shape (4, 4); it must have (2, 4)",
        ),
    ],
)
def test_operands_of_a_job_are_checked_before_they_are_sent(connect, tmp_path, a, b, c, message):
    np.save(tmp_path / "wide.npy", np.ones((2, 3)))
    np.save(tmp_path / "single.npy", np.ones((3, 3), np.float32))
    given = [
        tmp_path / one if isinstance(one, str) and one.endswith(".npy") else one for one in (a, b)
    ]
    with pytest.raises(ValueError, match=re.escape(message)):
        connect(NOBODY).submit(*given, c=c, beta=0.0 if c is None else 1.0)


@pytest.mark.parametrize("key", ["", "a\nb", " a", "a ", "ü", "x" * 256])
def test_labels_are_a_list_and_a_key_is_what_a_header_can_have(connect, key):
    message = "idempotency_key is .*; it must have 1 to 255 printable ASCII characters"
    for option, limit in (({"labels": "x"}, "must be a list"), ({"idempotency_key": key}, message)):
        with pytest.raises(ValueError, match=limit):
            connect(NOBODY).submit(EYE, EYE, **option)
